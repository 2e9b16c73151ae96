"""Charts as PNG from values: timeline, bandwidth, heatmap, taxonomy search."""
