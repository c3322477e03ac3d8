// Lines and columns of annotated text files.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace headwise {

// Lines without their ends ("\n" or "\r\n"), numbered from 1.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {}

  std::optional<std::string_view> Next() {
    if (at_ >= text_.size()) return {};
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = text_.substr(at_, end - at_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at_ = end + 1;
    ++number_;
    return line;
  }
  // Of the line that Next gave last.
  size_t number() const { return number_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
  size_t number_ = 0;
};

inline std::vector<std::string_view> SplitColumns(std::string_view line,
                                                  char separator) {
  std::vector<std::string_view> columns;
  for (size_t at = 0;;) {
    const size_t end = line.find(separator, at);
    columns.push_back(line.substr(at, end == line.npos ? end : end - at));
    if (end == line.npos) return columns;
    at = end + 1;
  }
}

}  // namespace headwise
