// WeightSource. Door: weights.h.
#include "headwise/model/weights.h"

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {

Parameter WeightSource::Maybe(const std::string& name,
                              std::initializer_list<int64_t> shape,
                              const Start& start) const {
  Parameter parameter = Check(name, Provide(name, shape, start), shape);
  if (!parameter) return parameter;
  parameter.gradient = Gradient(name);
  parameter.compute = Compute(name);
  parameter.varies = Varies(name);
  return parameter;
}

Parameter WeightSource::Constant(const std::string& name,
                                 std::initializer_list<int64_t> shape) const {
  return Check(name, Find(name), shape);
}

Parameter WeightSource::Check(const std::string& name,
                              const ConstTensorView& view,
                              std::initializer_list<int64_t> shape) const {
  if (!view) return {name, {}};
  bool fits = view.rank == static_cast<int>(shape.size());
  std::string wanted;
  int axis = 0;
  for (const int64_t size : shape) {
    if (axis < view.rank && size != kAny && view.shape[axis] != size) {
      fits = false;
    }
    wanted += (axis > 0 ? ", " : "") +
              (size == kAny ? std::string("any") : std::to_string(size));
    ++axis;
  }
  if (!fits) {
    throw Error(ErrorCode::kCorrupt,
                {Describe(), "\"" + name + "\" to be [" + wanted + "]",
                 ToString(view), "config.json and the weights disagree"});
  }
  if (!IsWeight(view.type)) {
    throw Error(ErrorCode::kUnsupported,
                {Describe(), "\"" + name + "\" to be f32, bf16, f16 or blocks",
                 ToString(view), "convert the file to one of these types"});
  }
  return {.name = name, .value = view, .mapped = Mapped()};
}

Parameter WeightSource::Get(const std::string& name,
                            std::initializer_list<int64_t> shape,
                            const Start& start) const {
  Parameter parameter = Maybe(name, shape, start);
  if (parameter) return parameter;
  const std::vector<std::string> names = Names();
  throw Error(
      ErrorCode::kNotFound,
      {Describe(), "the tensor \"" + name + "\"", "none of that name",
       names.empty() ? "the file holds no tensors"
                     : "the nearest is \"" + Nearest(name, names) + "\""});
}

}  // namespace headwise
