// Parameters as f32, on the host and where layers read them. Door: parameter.h.
#include "headwise/nn/parameter.h"

#include <utility>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void RequireNumbers(const Parameter& parameter) {
  const ConstTensorView& value = parameter.value;
  if (value.rank != 1 && value.rank != 2) {
    throw Error(ErrorCode::kUnsupported,
                {"parameter", "a vector or a matrix", ToString(value), ""});
  }
  if (IsWeight(value.type)) return;
  throw Error(
      ErrorCode::kUnsupported,
      {parameter.name, "f32, bf16, f16 or blocks", Name(value.type), ""});
}

}  // namespace

bool IsWeight(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16 ||
         !IsPlain(type);
}

std::string BiasNameOf(const Parameter& weight) {
  std::string name = weight.name;
  return name.replace(name.rfind("weight"), 6, "bias");
}

Parameter SliceOf(const Parameter& parameter, int axis, int64_t begin,
                  int64_t end) {
  Parameter part = parameter;
  if (!parameter) return part;
  if (!IsPlain(parameter.value.type)) {
    CheckBlocks(parameter.value, axis, begin, end, parameter.name);
  }
  part.value = Slice(parameter.value, axis, begin, end);
  part.gradient = Slice(parameter.gradient, axis, begin, end);
  part.compute = Slice(parameter.compute, axis, begin, end);
  // Rows are pages of their own; others lie among what is not ours to give
  // back.
  part.mapped = parameter.mapped && axis == 0;
  if (parameter.within.whole && parameter.within.axis != axis) {
    throw Error(ErrorCode::kInternal,
                {parameter.name,
                 "slices along axis " + std::to_string(parameter.within.axis),
                 "axis " + std::to_string(axis), ""});
  }
  part.within = {parameter.stored(), axis, parameter.within.first + begin};
  return part;
}

Tensor ToF32(Context& context, const Parameter& parameter) {
  RequireNumbers(parameter);
  Tensor host(DType::kF32, ShapeOf(parameter.value));
  Tensor blocks;  // the host reads them
  ConstTensorView stored = parameter.value;
  if (!IsPlain(stored.type)) stored = OnHost(context, stored, blocks);
  Copy(context, stored, host.view());
  if (!stored.device.is_cpu()) context.Synchronize();
  return host;
}

void AddToEach(float number, Tensor& host) {
  Context context({.threads = 1});
  Tensor numbers(host.type(), ShapeOf(host.view()));
  Fill(context, number, numbers.view());
  AddTo(context, numbers.view(), host.view());
}

Values::Values(Parameter parameter, Type type, float added)
    : parameter_(std::move(parameter)),
      type_(IsPlain(parameter_.value.type) ? type : Type::kF32),
      added_(added),
      made_(std::make_shared<Made>()) {
  if (parameter_ && type_ == Type::kF32) RequireNumbers(parameter_);
}

ConstTensorView Values::view(Context& context) const {
  const ConstTensorView& stored = parameter_.value;
  if (!parameter_.fixed() || !stored) return stored;
  if (type_ == Type::kStored && stored.device == context.device()) {
    return stored;
  }
  std::call_once(made_->once, [&] {
    Tensor host;
    if (type_ == Type::kF32) host = ToF32(context, parameter_);
    if (added_ != 0) AddToEach(added_, host);
    if (type_ == Type::kF32 && context.device().is_cpu()) {
      made_->values = std::move(host);
      return;
    }
    made_->values =
        ToDevice(context, type_ == Type::kF32 ? host.view() : stored);
    context.Synchronize();  // `host` goes, and other contexts may read
  });
  return std::as_const(made_->values).view();
}

}  // namespace headwise
