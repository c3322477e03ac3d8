// Door: json_lines.h.
#include "headwise/base/json_lines.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"

namespace headwise {

void ReadJsonLines(const std::filesystem::path& file, const char* expected,
                   const std::function<void(const Json&)>& take) {
  if (!std::filesystem::exists(file)) return;
  const MappedFile mapped(file);
  std::string_view rest = mapped.text();
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    try {
      take(ParseJson(rest.substr(0, end), file.string()));
    } catch (const Error& error) {
      throw Error(ErrorCode::kCorrupt,
                  {file.string() + ":" + std::to_string(line), expected,
                   error.what(), ""});
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace headwise
