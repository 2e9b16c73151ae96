"""What a Kubernetes must let RackMedic do (`rbac.yaml`), and a stand-in of its API for the real kubectl. No cluster: the product never imports it."""
