// Labels of tokens. Door: token_labels.h.
#include "headwise/runtime/token_labels.h"

#include <utility>

#include "headwise/tokenizer.h"

namespace headwise {

std::vector<std::string> TokenLabels(const TokenRow& row,
                                     const Tokenizer& tokenizer) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < row.size(); ++i) {
    const auto [begin, end] = row.spans[i];
    std::string label = row.added[i] != 0 || row.text == nullptr
                            ? PieceText(tokenizer, row.ids[i])
                            : row.text->substr(begin, end - begin);
    if (label.empty()) label = "?";
    const size_t first = label.find_first_not_of(" \t\r\n");
    if (first == label.npos) {
      label = label.find('\n') != label.npos ? "⏎" : "␣";
    } else {
      label =
          label.substr(first, label.find_last_not_of(" \t\r\n") + 1 - first);
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

}  // namespace headwise
