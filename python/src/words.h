// Words that stand for values of enums (headwise/fields.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/fields.h"

namespace headwise::python {

// Throws Error(kInvalidArgument) for a word that is none of the enum's.
template <typename Enum>
std::vector<Enum> FromWords(const std::vector<std::string>& words,
                            const char* where) {
  std::vector<Enum> values;
  const auto take = [&](const std::string& word) {
    if constexpr (requires { FieldGroups(Enum{}); }) {
      for (const auto& group : FieldGroups(Enum{})) {
        if (word != group.word) continue;
        values.insert(values.end(), group.values.begin(), group.values.end());
        return;
      }
    }
    std::string known;
    const auto all = FieldWords(Enum{});
    for (size_t i = 0; i < all.size(); ++i) {
      if (word == all[i]) return values.push_back(static_cast<Enum>(i));
      known += (i == 0 ? "" : ", ") + std::string(all[i]);
    }
    throw Error(ErrorCode::kInvalidArgument,
                {where, "one of " + known, "\"" + word + "\"", ""});
  };
  for (const std::string& word : words) take(word);
  return values;
}

}  // namespace headwise::python
