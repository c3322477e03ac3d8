// OnnxGraph: protobuf messages of libonnx. Door: graph.h.
#include "headwise/export/onnx/graph.h"

#include <onnx/onnx_pb.h>

#include <bit>

#include "headwise/base/atomic_file.h"
#include "headwise/error.h"
#include "headwise/export/source.h"
#include "headwise/version.h"

namespace headwise {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kOpset = 17;

void AddInts(const char* name, const std::vector<int64_t>& values,
             onnx::NodeProto& node) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}

void AddInt(const char* name, int64_t value, onnx::NodeProto& node) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

onnx::TypeProto::Tensor& TensorType(int type, onnx::ValueInfoProto& info) {
  onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  for (const char* axis : {"batch", "sequence"}) {
    tensor.mutable_shape()->add_dim()->set_dim_param(axis);
  }
  return tensor;
}

}  // namespace

struct OnnxGraph::Messages {
  onnx::ModelProto model;
  int64_t names = 0;

  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  std::string NewName() { return "v" + std::to_string(names++); }

  onnx::NodeProto& Node(const char* type, const std::vector<OnnxValue>& inputs,
                        int outputs = 1) {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(type);
    for (const OnnxValue& input : inputs) node.add_input(input);
    for (int i = 0; i < outputs; ++i) node.add_output(NewName());
    return node;
  }

  onnx::TensorProto& Constant(int type, const std::vector<int64_t>& shape) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(NewName());
    tensor.set_data_type(type);
    for (const int64_t axis : shape) tensor.add_dims(axis);
    return tensor;
  }
};

OnnxGraph::OnnxGraph(Context& context)
    : context_(context), messages_(std::make_unique<Messages>()) {
  onnx::ModelProto& model = messages_->model;
  model.set_ir_version(onnx::IR_VERSION);
  model.set_producer_name("headwise");
  model.set_producer_version(HEADWISE_VERSION);
  model.add_opset_import()->set_version(kOpset);
  messages_->graph().set_name("model");
}

OnnxGraph::~OnnxGraph() = default;

OnnxValue OnnxGraph::Input(const std::string& name) {
  onnx::ValueInfoProto& info = *messages_->graph().add_input();
  info.set_name(name);
  TensorType(onnx::TensorProto::INT64, info);
  return name;
}

void OnnxGraph::Output(const std::string& name, const OnnxValue& value,
                       int64_t width) {
  onnx::NodeProto& node = messages_->Node("Identity", {value});
  node.set_output(0, name);
  onnx::ValueInfoProto& info = *messages_->graph().add_output();
  info.set_name(name);
  TensorType(onnx::TensorProto::FLOAT, info)
      .mutable_shape()
      ->add_dim()
      ->set_dim_value(width);
}

OnnxValue OnnxGraph::Op(
    const char* type, const std::vector<OnnxValue>& inputs,
    std::initializer_list<std::pair<const char*, int64_t>> numbers) {
  onnx::NodeProto& node = messages_->Node(type, inputs);
  for (const auto& [name, value] : numbers) AddInt(name, value, node);
  return node.output(0);
}

OnnxValue OnnxGraph::Transpose(const OnnxValue& x,
                               const std::vector<int64_t>& order) {
  onnx::NodeProto& node = messages_->Node("Transpose", {x});
  AddInts("perm", order, node);
  return node.output(0);
}

std::vector<OnnxValue> OnnxGraph::Split(const OnnxValue& x,
                                        const std::vector<int64_t>& sizes) {
  onnx::NodeProto& node = messages_->Node("Split", {x, Integers(sizes)},
                                          static_cast<int>(sizes.size()));
  AddInt("axis", -1, node);
  return {node.output().begin(), node.output().end()};
}

OnnxValue OnnxGraph::LayerNorm(const std::vector<OnnxValue>& inputs,
                               float epsilon) {
  onnx::NodeProto& node = messages_->Node("LayerNormalization", inputs);
  AddInt("axis", -1, node);
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name("epsilon");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(epsilon);
  return node.output(0);
}

OnnxValue OnnxGraph::Mean(const OnnxValue& x) {
  onnx::NodeProto& node = messages_->Node("ReduceMean", {x});
  AddInts("axes", {-1}, node);
  AddInt("keepdims", 1, node);
  return node.output(0);
}

OnnxValue OnnxGraph::Reshape(const OnnxValue& x,
                             const std::vector<int64_t>& shape) {
  return Op("Reshape", {x, Integers(shape)});
}

OnnxValue OnnxGraph::Number(float value) {
  onnx::TensorProto& tensor = messages_->Constant(onnx::TensorProto::FLOAT, {});
  tensor.add_float_data(value);
  return tensor.name();
}

OnnxValue OnnxGraph::Integer(int64_t value) {
  onnx::TensorProto& tensor = messages_->Constant(onnx::TensorProto::INT64, {});
  tensor.add_int64_data(value);
  return tensor.name();
}

OnnxValue OnnxGraph::Integers(const std::vector<int64_t>& values) {
  onnx::TensorProto& tensor =
      messages_->Constant(onnx::TensorProto::INT64, {std::ssize(values)});
  for (const int64_t value : values) tensor.add_int64_data(value);
  return tensor.name();
}

OnnxValue OnnxGraph::Vector(const std::vector<float>& values) {
  onnx::TensorProto& tensor =
      messages_->Constant(onnx::TensorProto::FLOAT, {std::ssize(values)});
  for (const float value : values) tensor.add_float_data(value);
  return tensor.name();
}

OnnxValue OnnxGraph::Weight(const Parameter& parameter) {
  if (!weights_.insert(parameter.name).second) return parameter.name;
  const ConstTensorView& view = parameter.value;
  const Tensor values = Converted(context_, view, DType::kF32, parameter.name);
  onnx::TensorProto& tensor =
      messages_->Constant(onnx::TensorProto::FLOAT,
                          {view.shape.begin(), view.shape.begin() + view.rank});
  tensor.set_name(parameter.name);
  tensor.set_raw_data(values.view().data, values.bytes());
  return parameter.name;
}

void OnnxGraph::Write(const std::filesystem::path& path) const {
  std::string bytes;
  if (!messages_->model.SerializeToString(&bytes)) {
    throw Error(
        ErrorCode::kUnsupported,
        {path.string(), "a model of less than 2 GiB", "a larger one", ""});
  }
  WriteFileAtomically(path, bytes);
}

}  // namespace headwise
