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

enum class Need : uint8_t { kRequired, kOptional };

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

  // Find, for a tensor that ought to have this shape (kAny: not known) and
  // that the model needs or could do without. A source of new weights makes
  // the tensor here.
  virtual ConstTensorView Provide(const std::string& name,
                                  std::span<const int64_t> /*shape*/,
                                  Need /*need*/) const {
    return Find(name);
  }

  // The tensor, of exactly this shape; kAny matches every size. Throws
  // Error(kNotFound) with the nearest name, Error(kCorrupt) with both shapes.
  static constexpr int64_t kAny = -1;
  Parameter Get(const std::string& name,
                std::initializer_list<int64_t> shape) const;
  // Absent: an empty Parameter.
  Parameter Maybe(const std::string& name,
                  std::initializer_list<int64_t> shape) const;

 private:
  Parameter Check(const std::string& name, const ConstTensorView& view,
                  std::initializer_list<int64_t> shape) const;
};

}  // namespace headwise
