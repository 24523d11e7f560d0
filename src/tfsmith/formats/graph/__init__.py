"""Graphs: TensorProto, NodeDef, GraphDef, MetaGraphDef."""
