"""What people wrote and handed in, read into hosts, job, times, symptoms and facts. Pure; may import `graph.state` alone."""
