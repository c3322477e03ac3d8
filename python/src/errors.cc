// Errors of the library as Python's own, with the library's text.
#include "headwise/error.h"

#include <cerrno>
#include <exception>
#include <string>

#include "binding.h"

namespace headwise::python {
namespace {

// What is not there is a file, or the name of something in a model.
bool IsFile(const ErrorParts& parts) {
  return parts.where.find('/') != std::string::npos ||
         parts.found == "No such file or directory" ||
         parts.expected.find("folder") != std::string::npos;
}

// OSError's own arguments are a number and a text: with the text alone it has
// no errno, and prints as ours does.
PyObject* TypeOf(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
      return PyExc_ValueError;
    case ErrorCode::kNotFound:
      return IsFile(error.parts()) ? PyExc_FileNotFoundError : PyExc_ValueError;
    case ErrorCode::kIo:
      return PyExc_OSError;
    case ErrorCode::kOutOfMemory:
      return PyExc_MemoryError;
    case ErrorCode::kCancelled:
      return PyExc_KeyboardInterrupt;
    case ErrorCode::kInternal:
      break;
  }
  return PyExc_RuntimeError;
}

}  // namespace

void AddErrors(py::module_& module) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(TypeOf(error), error.what());
    } catch (const py::cast_error& error) {
      const std::string text =
          "[arguments] expected texts in UTF-8, ids of 32 bits and objects "
          "that headwise made; found others: ";
      PyErr_SetString(PyExc_ValueError, (text + error.what()).c_str());
    }
  });
}

}  // namespace headwise::python
