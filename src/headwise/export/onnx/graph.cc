// OnnxGraph: the messages of an ONNX file, field numbers as onnx.proto has
// them. Door: graph.h.
#include "headwise/export/onnx/graph.h"

#include <cstddef>
#include <limits>

#include "headwise/base/atomic_file.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/export/source.h"
#include "headwise/version.h"

namespace headwise {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;

enum TensorType : int64_t { kFloat = 1, kInt64 = 7 };

namespace field {
constexpr int kModelIrVersion = 1, kModelProducer = 2,
              kModelProducerVersion = 3, kModelGraph = 7, kModelOpset = 8;
constexpr int kOpsetVersion = 2;
constexpr int kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5,
              kGraphInput = 11, kGraphOutput = 12;
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeType = 4,
              kNodeAttribute = 5;
constexpr int kAttributeName = 1, kAttributeFloat = 2, kAttributeInt = 3,
              kAttributeInts = 8, kAttributeType = 20;
constexpr int kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;
constexpr int kInfoName = 1, kInfoType = 2;
constexpr int kTypeTensor = 1;
constexpr int kTensorTypeElement = 1, kTensorTypeShape = 2;
constexpr int kShapeDim = 1, kDimValue = 1, kDimName = 2;
}  // namespace field

ProtoMessage Attribute(const char* name, int64_t type) {
  return ProtoMessage()
      .Bytes(field::kAttributeName, name)
      .Int(field::kAttributeType, type);
}
ProtoMessage FloatAttribute(const char* name, float value) {
  return Attribute(name, 1).Float(field::kAttributeFloat, value);
}
ProtoMessage IntAttribute(const char* name, int64_t value) {
  return Attribute(name, 2).Int(field::kAttributeInt, value);
}
ProtoMessage IntsAttribute(const char* name,
                           const std::vector<int64_t>& values) {
  ProtoMessage attribute = Attribute(name, 7);
  for (const int64_t value : values) {
    attribute.Int(field::kAttributeInts, value);
  }
  return attribute;
}

// A value of [batch, sequence], or [batch, sequence, width].
ProtoMessage ValueInfo(const std::string& name, TensorType type,
                       int64_t width = 0) {
  ProtoMessage shape;
  for (const char* axis : {"batch", "sequence"}) {
    shape.Message(field::kShapeDim,
                  ProtoMessage().Bytes(field::kDimName, axis));
  }
  if (width > 0) {
    shape.Message(field::kShapeDim,
                  ProtoMessage().Int(field::kDimValue, width));
  }
  const ProtoMessage tensor = ProtoMessage()
                                  .Int(field::kTensorTypeElement, type)
                                  .Message(field::kTensorTypeShape, shape);
  return ProtoMessage()
      .Bytes(field::kInfoName, name)
      .Message(field::kInfoType,
               ProtoMessage().Message(field::kTypeTensor, tensor));
}

std::string_view BytesOf(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

}  // namespace

OnnxGraph::OnnxGraph(Context& context) : context_(context) {
  graph_.Bytes(field::kGraphName, "model");
}

std::string OnnxGraph::NewName() { return "v" + std::to_string(names_++); }

std::vector<OnnxValue> OnnxGraph::Node(
    const char* type, const std::vector<OnnxValue>& inputs,
    const std::vector<ProtoMessage>& attributes, size_t outputs) {
  ProtoMessage node;
  std::vector<OnnxValue> made(outputs);
  for (const OnnxValue& input : inputs) node.Bytes(field::kNodeInput, input);
  for (OnnxValue& output : made) {
    output = NewName();
    node.Bytes(field::kNodeOutput, output);
  }
  node.Bytes(field::kNodeType, type);
  for (const ProtoMessage& attribute : attributes) {
    node.Message(field::kNodeAttribute, attribute);
  }
  graph_.Message(field::kGraphNode, node);
  return made;
}

void OnnxGraph::Constant(const std::string& name, int64_t type,
                         const std::vector<int64_t>& shape,
                         std::string_view raw) {
  ProtoMessage tensor;
  for (const int64_t axis : shape) tensor.Int(field::kTensorDims, axis);
  tensor.Int(field::kTensorType, type).Bytes(field::kTensorName, name);
  tensor.Bytes(field::kTensorRaw, raw);
  graph_.Message(field::kGraphInitializer, tensor);
}

OnnxValue OnnxGraph::Input(const std::string& name) {
  graph_.Message(field::kGraphInput, ValueInfo(name, kInt64));
  return name;
}

void OnnxGraph::Output(const std::string& name, const OnnxValue& value,
                       int64_t width) {
  graph_.Message(field::kGraphNode, ProtoMessage()
                                        .Bytes(field::kNodeInput, value)
                                        .Bytes(field::kNodeOutput, name)
                                        .Bytes(field::kNodeType, "Identity"));
  graph_.Message(field::kGraphOutput, ValueInfo(name, kFloat, width));
}

OnnxValue OnnxGraph::Op(
    const char* type, const std::vector<OnnxValue>& inputs,
    std::initializer_list<std::pair<const char*, int64_t>> numbers) {
  std::vector<ProtoMessage> attributes;
  for (const auto& [name, value] : numbers) {
    attributes.push_back(IntAttribute(name, value));
  }
  return Node(type, inputs, attributes)[0];
}

OnnxValue OnnxGraph::Transpose(const OnnxValue& x,
                               const std::vector<int64_t>& order) {
  return Node("Transpose", {x}, {IntsAttribute("perm", order)})[0];
}

std::vector<OnnxValue> OnnxGraph::Split(const OnnxValue& x,
                                        const std::vector<int64_t>& sizes) {
  return Node("Split", {x, Integers(sizes)}, {IntAttribute("axis", -1)},
              sizes.size());
}

OnnxValue OnnxGraph::LayerNorm(const std::vector<OnnxValue>& inputs,
                               float epsilon) {
  return Node(
      "LayerNormalization", inputs,
      {IntAttribute("axis", -1), FloatAttribute("epsilon", epsilon)})[0];
}

OnnxValue OnnxGraph::Mean(const OnnxValue& x) {
  return Node("ReduceMean", {x},
              {IntsAttribute("axes", {-1}), IntAttribute("keepdims", 1)})[0];
}

OnnxValue OnnxGraph::Reshape(const OnnxValue& x,
                             const std::vector<int64_t>& shape) {
  return Op("Reshape", {x, Integers(shape)});
}

OnnxValue OnnxGraph::Number(float value) {
  const std::string name = NewName();
  Constant(name, kFloat, {}, BytesOf(&value, sizeof(value)));
  return name;
}

OnnxValue OnnxGraph::Integer(int64_t value) {
  const std::string name = NewName();
  Constant(name, kInt64, {}, BytesOf(&value, sizeof(value)));
  return name;
}

OnnxValue OnnxGraph::Integers(const std::vector<int64_t>& values) {
  const std::string name = NewName();
  Constant(name, kInt64, {std::ssize(values)},
           BytesOf(values.data(), values.size() * sizeof(int64_t)));
  return name;
}

OnnxValue OnnxGraph::Vector(const std::vector<float>& values) {
  const std::string name = NewName();
  Constant(name, kFloat, {std::ssize(values)},
           BytesOf(values.data(), values.size() * sizeof(float)));
  return name;
}

OnnxValue OnnxGraph::Weight(const Parameter& parameter) {
  // Slices of one tensor are weights of their own.
  const auto& within = parameter.within;
  const std::string name =
      within.whole ? parameter.name + "[" + std::to_string(within.first) + "]"
                   : parameter.name;
  if (!weights_.insert(name).second) return name;
  const ConstTensorView& view = parameter.value;
  const Tensor values = Converted(context_, view, DType::kF32, parameter.name);
  Constant(name, kFloat, {view.shape.begin(), view.shape.begin() + view.rank},
           BytesOf(values.view().data, values.bytes()));
  return name;
}

void OnnxGraph::Write(const std::filesystem::path& path) const {
  if (graph_.bytes().size() > std::numeric_limits<int32_t>::max()) {
    throw Error(ErrorCode::kUnsupported,
                {path.string(), "a model of less than 2 GiB",
                 ByteSize(graph_.bytes().size()),
                 "an ONNX file holds no more; export gguf or safetensors"});
  }
  const ProtoMessage opset = ProtoMessage().Int(field::kOpsetVersion, kOpset);
  const ProtoMessage model =
      ProtoMessage()
          .Int(field::kModelIrVersion, kIrVersion)
          .Bytes(field::kModelProducer, "headwise")
          .Bytes(field::kModelProducerVersion, HEADWISE_VERSION_STRING)
          .Message(field::kModelGraph, graph_)
          .Message(field::kModelOpset, opset);
  WriteFileAtomically(path, model.bytes());
}

}  // namespace headwise
