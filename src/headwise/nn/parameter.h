// A named weight, as the checkpoint holds it: mapped from a file or owned
// elsewhere. Layers read it through what they make of it (packed products).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

struct Parameter {
  std::string name;  // the checkpoint's
  // f32, bf16, f16, or blocks that ToF32 reads (IsWeight); null: absent.
  // Trainable ones are aligned, others lie where the file has them
  // (tensor/unaligned.h).
  ConstTensorView value;
  // Trainable parameters: of the value's shape, f32, added to by backwards.
  // Their value is f32 and may change between calls.
  TensorView gradient = {};
  // Trainable parameters of a model that computes in a half: the value rounded
  // to it, by who changes the value. Null: products read the value.
  ConstTensorView compute = {};
  // Within a MappedFile: pages may be given back (release.h).
  bool mapped = false;
  // May change between calls, gradient or not; f32 then, and aligned.
  bool varies = false;
  // The value is a slice of the checkpoint's tensor: the places from `first` on
  // along an axis of `whole`. Null: the value is the tensor.
  struct Within {
    ConstTensorView whole = {};
    int axis = 0;
    int64_t first = 0;
  };
  Within within = {};

  explicit operator bool() const { return static_cast<bool>(value); }
  bool trainable() const { return static_cast<bool>(gradient); }
  // The checkpoint's tensor.
  const ConstTensorView& stored() const {
    return within.whole ? within.whole : value;
  }
  // The values that products read.
  const ConstTensorView& operand() const { return compute ? compute : value; }
  // Values that were made of it can be kept.
  bool fixed() const { return !varies && !trainable(); }
};

// Whether a parameter may be of this type.
bool IsWeight(DType type);

// The name of the bias beside a weight: "….weight" as "….bias".
std::string BiasNameOf(const Parameter& weight);

// Places [begin, end) along an axis of a parameter's value, with their
// gradients. Absent of an absent one.
Parameter SliceOf(const Parameter& parameter, int axis, int64_t begin,
                  int64_t end);

// The values as f32 on the host, dense. Throws Error(kUnsupported) for what is
// neither a vector nor a matrix of such a type.
Tensor ToF32(Context& context, const Parameter& parameter);
// Adds a number to each of a tensor's, on the host.
void AddToEach(float number, Tensor& host);

// A parameter as layers read it, on the context's device: made at first use, so
// that opening a model is cheap. One that changes (a trainable one does) is
// read where it lies. May be asked from several threads, each with its own
// Context of one device.
class Values {
 public:
  enum class Type : uint8_t {
    kF32,  // small ones
    // Large ones, whose rows are read by number: where they lie, if the device
    // can read that. Blocks become f32.
    kStored,
  };

  Values() = default;
  // kF32 throws as ToF32 does. An absent parameter has no values. `added`: to
  // each of the values of kF32.
  explicit Values(Parameter parameter, Type type = Type::kF32, float added = 0);

  const Parameter& parameter() const { return parameter_; }
  explicit operator bool() const { return static_cast<bool>(parameter_); }

  // Values in the parameter's shape; null where it is absent. Those of one that
  // changes are as they lie, without what is to be added.
  ConstTensorView view(Context& context) const;

 private:
  struct Made {
    std::once_flag once;
    Tensor values;
  };

  Parameter parameter_;
  Type type_ = Type::kF32;
  float added_ = 0;
  std::shared_ptr<Made> made_;
};

}  // namespace headwise
