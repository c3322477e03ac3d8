// Door: job.h.
#include "job.h"

#include <sstream>
#include <string_view>

#include "headwise/error.h"

namespace headwise::python {

std::string BoundsText(const std::vector<std::string>& words,
                       const FieldRange& range) {
  std::ostringstream text;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    text << (i == 0 ? "" : last ? " or " : ", ") << words[i];
  }
  constexpr FieldRange kAny;
  const bool low = range.least > kAny.least, high = range.most < kAny.most;
  if (range.above) {
    text << "above " << range.least;
    if (high) text << " and up to " << range.most;
  } else if (low && high) {
    text << "from " << range.least << " to " << range.most;
  } else if (low) {
    text << "of at least " << range.least;
  } else if (high) {
    text << "of at most " << range.most;
  }
  return text.str();
}

void FailValue(const std::string& where, const char* name,
               const std::string& type, const std::string& bounds,
               const py::object& found) {
  PyObject* const value = found.ptr();
  const bool is_word = type == "str" && !bounds.empty();
  const bool is_type = PyList_Check(value) ||
                       (type == "int" && PyIndex_Check(value)) ||
                       (type == "float" && PyNumber_Check(value)) ||
                       (is_word && PyUnicode_Check(value));
  const std::string rest = !bounds.empty()   ? " " + bounds
                           : type == "float" ? " that is finite"
                                             : "";
  const Error error(
      ErrorCode::kInvalidArgument,
      {where, std::string(name) + ":" + (is_word ? "" : " " + type) + rest,
       py::repr(found), ""});
  if (is_type) throw error;
  throw py::type_error(error.what());
}

void Add(py::list all, const char* name, const char* help, const char* type,
         py::object value, const std::string& bounds,
         const std::vector<std::string>& words, bool is_list,
         bool is_optional) {
  all.append(py::dict("name"_a = name, "help"_a = help, "type"_a = type,
                      "default"_a = std::move(value), "bounds"_a = bounds,
                      "words"_a = words, "list"_a = is_list,
                      "optional"_a = is_optional));
}

void ListProgress(py::list all) {
  Add(std::move(all), "progress",
      "True: a line on stderr; or a function of (stage, done, total)",
      "Progress", py::bool_(false));
}

}  // namespace headwise::python
