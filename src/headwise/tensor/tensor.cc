// Tensor, Temp and their types. Doors: include/headwise/tensor.h, temp.h.
#include "headwise/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "headwise/backend/device_backend.h"
#include "headwise/base/byte_size.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

void Shape::ThrowTooMany(size_t count) {
  throw Error(ErrorCode::kInvalidArgument,
              {"tensor", "at most 6 sizes", std::to_string(count), ""});
}

void ThrowNotReadable(DType type, Device device) {
  throw Error(ErrorCode::kInvalidArgument,
              {"tensor", "As<T>() of T's own elements in the host's memory",
               std::string(Name(type)) + " on " + ToString(device),
               device.is_cpu() ? "f32 is float, bf16 and f16 are uint16_t, …"
                               : "copy it to the host first"});
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::string ToString(const ConstTensorView& view) {
  const std::span sizes(view.shape.data(), static_cast<size_t>(view.rank));
  std::string text =
      std::string(Name(view.type)) + " " + ToString(Shape(sizes));
  if (!view.device.is_cpu()) text += " on " + ToString(view.device);
  return text;
}

void Tensor::Free::operator()(void* data) const {
  if (owner) {
    owner->Free(data, bytes);
  } else {
    std::free(data);
  }
}

Tensor::Tensor(DType type, const Shape& shape) {
  const int64_t bytes = CheckedBytes(type, shape, "tensor");
  const size_t rounded =
      (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  memory_.reset(std::aligned_alloc(kAlignment, rounded));
  if (!memory_) {
    throw Error(ErrorCode::kOutOfMemory,
                {"tensor",
                 ByteSize(static_cast<uint64_t>(bytes)) + " for a tensor " +
                     ToString(shape),
                 "none", ""});
  }
  std::memset(memory_.get(), 0, rounded);
  view_ = TensorView(memory_.get(), type, shape);
}

Tensor::Tensor(Context& context, DType type, const Shape& shape) {
  *this = Undefined(context, type, shape);
  context.backend()->Zero(memory_.get(), bytes());
}

Tensor Tensor::Undefined(Context& context, DType type, const Shape& shape) {
  const std::shared_ptr<DeviceBackend>& backend = context.backend();
  // No device gives a place for nothing.
  const size_t bytes = std::max<size_t>(1, CheckedBytes(type, shape, "tensor"));
  Tensor result;
  result.memory_ = {backend->Allocate(bytes), Free{backend, bytes}};
  result.view_ =
      TensorView(result.memory_.get(), type, shape, context.device());
  return result;
}

Temp::Temp(Context& context, DType type, const Shape& shape) {
  if (!context.device().is_cpu()) {
    device_ = Tensor::Undefined(context, type, shape);
    view_ = device_.view();
    return;
  }
  host_ = context.workspace().Take(CheckedBytes(type, shape, "tensor"));
  view_ = TensorView(host_.data(), type, shape);
}

Tensor::Tensor(Tensor&& other) noexcept
    : memory_(std::move(other.memory_)),
      view_(std::exchange(other.view_, {})) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  memory_ = std::move(other.memory_);
  view_ = std::exchange(other.view_, {});
  return *this;
}

}  // namespace headwise
