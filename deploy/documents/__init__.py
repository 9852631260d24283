"""What is generated from the code: tables of pages, manifests, the chart's schema, and the OpenAPI documents."""
