// A user's own detector: which keys should each query read? Described in a
// JSON file as labels or pairs (docs/patterns.md); a head's score is its mean
// mass on the keys whose label is the query's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/pattern.h"

namespace headwise {

class Detector {
 public:
  // Throws Error: kNotFound, kCorrupt naming the file and key.
  static Detector Load(const std::filesystem::path& path);

  // "quotes": its metric is "pattern.quotes".
  const std::string& name() const { return name_; }

  // Labels of a window's source tokens, as queries and as keys; −1: none.
  // Remembers the last document, so that windows come best in order.
  void Label(const TokenWindow& window, std::vector<int32_t>& query_labels,
             std::vector<int32_t>& key_labels);

 private:
  struct Labels {
    int32_t query = -1;
    int32_t key = -1;
  };
  struct Rule {
    Pattern match;
    Labels labels;
  };
  // Bytes [begin, end) of a document.
  struct Stretch {
    uint64_t begin = 0;
    uint64_t end = 0;
    Labels labels;
  };

  static Labels ReadLabels(const JsonCursor& json);
  void ReadPairs(const JsonCursor& json);
  std::vector<Stretch> Find(const TokenWindow& window) const;

  std::string name_;
  std::vector<Rule> rules_;
  std::map<std::string, std::vector<Stretch>> documents_;  // by name
  // Of the last document.
  std::shared_ptr<const std::string> text_;
  std::vector<Stretch> found_;
};

}  // namespace headwise
