"""The protocol's messages: `*_pb2`, which protoc makes of this folder's `.proto` files.

From a clone: `protoc="python -m grpc_tools.protoc -Iservice/src --python_out service/src --pyi_out service/src"`, and then
`$protoc service/src/slackwater/adapters/cloud/externalgrpc/wire/*.proto`.
"""
