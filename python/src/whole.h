// Objects without a value, which __new__ alone makes: what takes an object of
// these types refuses them. To be included wherever a function takes one.
#pragma once

#include "binding.h"
#include "headwise/error.h"

namespace headwise::python {

// Throws Error(kInvalidArgument) for an object of T that holds none.
template <typename T>
void RequireValue(py::handle object) {
  const auto* type = py::detail::get_type_info(typeid(T));
  if (type == nullptr || !PyObject_TypeCheck(object.ptr(), type->type)) return;
  auto* instance = reinterpret_cast<py::detail::instance*>(object.ptr());
  if (instance->get_value_and_holder(type).value_ptr() != nullptr) return;
  throw Error(ErrorCode::kInvalidArgument,
              {type->type->tp_name, "an object that headwise made",
               "one without a value", "__new__ alone makes none"});
}

template <typename T>
struct WholeCaster : py::detail::type_caster_base<T> {
  bool load(py::handle source, bool convert) {
    RequireValue<T>(source);
    return py::detail::type_caster_base<T>::load(source, convert);
  }
};

}  // namespace headwise::python
