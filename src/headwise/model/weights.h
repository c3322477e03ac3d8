// Where a model's weights come from: a checkpoint's tensors by name, with
// errors that name what was expected and what was found.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "headwise/nn/parameter.h"

namespace headwise {

// How a tensor begins in a new model: each family says it of each of its own.
struct Start {
  enum class Kind : uint8_t {
    kAbsent,    // a new model does without
    kValue,     // the same everywhere
    kNormal,    // random, of the deviation that training asks for
    kToStream,  // the same, of a matrix whose product is added to the residual
                // stream: deeper models may want it smaller
  };
  Kind kind = Kind::kAbsent;
  float value = 0;

  static constexpr Start Absent() { return {}; }
  static constexpr Start Value(float value) { return {Kind::kValue, value}; }
  static constexpr Start Zero() { return Value(0); }
  static constexpr Start One() { return Value(1); }
  static constexpr Start Normal() { return {Kind::kNormal, 0}; }
  static constexpr Start ToStream() { return {Kind::kToStream, 0}; }
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // "model.safetensors", for errors.
  virtual std::string Describe() const = 0;
  // A null view where there is no such tensor. Tensors of files may lie at any
  // address (tensor/unaligned.h).
  virtual ConstTensorView Find(const std::string& name) const = 0;
  virtual std::vector<std::string> Names() const = 0;
  // Whether the tensors lie within a MappedFile.
  virtual bool Mapped() const { return false; }
  // Where the gradient of a tensor is added up; null: it is not trained.
  virtual TensorView Gradient(const std::string& /*name*/) const { return {}; }
  // A tensor that may change although it is not trained: it is frozen.
  virtual bool Varies(const std::string& /*name*/) const { return false; }
  // A trained tensor in the type that the model computes in; null: as it is.
  virtual ConstTensorView Compute(const std::string& /*name*/) const {
    return {};
  }

  // Whether the tensor is absent and Provide would make it.
  virtual bool Makes(const std::string& /*name*/) const { return false; }
  // Find, for a tensor that ought to have this shape (kAny: not known). A
  // source of new weights makes the tensor here, unless it starts as kAbsent.
  virtual ConstTensorView Provide(const std::string& name,
                                  std::span<const int64_t> /*shape*/,
                                  const Start& /*start*/) const {
    return Find(name);
  }

  // The tensor, of exactly this shape; kAny matches every size. Throws
  // Error(kNotFound) with the nearest name, Error(kCorrupt) with both shapes.
  static constexpr int64_t kAny = -1;
  Parameter Get(const std::string& name, std::initializer_list<int64_t> shape,
                const Start& start) const;
  // Absent: an empty Parameter.
  Parameter Maybe(const std::string& name, std::initializer_list<int64_t> shape,
                  const Start& start) const;
  // The same of a tensor that is not trained and that new models do without.
  Parameter Constant(const std::string& name,
                     std::initializer_list<int64_t> shape) const;

 private:
  // Without its gradient.
  Parameter Check(const std::string& name, const ConstTensorView& view,
                  std::initializer_list<int64_t> shape) const;
};

}  // namespace headwise
