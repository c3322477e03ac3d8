// What the runs over word-level material share.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "headwise/base/stop.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Tells how far the run is. Throws Error(kCancelled) when it is to stop.
inline void ReportOrStop(const WordOptions& options, const char* stage,
                         size_t done, size_t total, const char* unit) {
  ThrowIfStopped(options.stop, stage);
  if (!options.progress) return;
  options.progress(
      {stage, static_cast<double>(done), static_cast<double>(total), unit});
}

// Encodes a text and frames it as the model knows texts: <bos> …, [CLS] …
// [SEP].
class Framer {
 public:
  Framer(const Tokenizer& tokenizer, const ModelConfig& config)
      : tokenizer_(tokenizer), frame_(FrameOf(tokenizer, config)) {}

  Encoding Encode(std::string_view text) const {
    Encoding encoding = tokenizer_.Encode(text, {.add_special_tokens = false});
    Insert(encoding, 0, frame_.before);
    Insert(encoding, encoding.size(), frame_.after);
    return encoding;
  }
  int64_t size() const { return frame_.size(); }

 private:
  static void Insert(Encoding& encoding, size_t at,
                     const std::vector<int32_t>& ids) {
    const auto offset = static_cast<std::ptrdiff_t>(at);
    encoding.ids.insert(encoding.ids.begin() + offset, ids.begin(), ids.end());
    encoding.spans.insert(encoding.spans.begin() + offset, ids.size(), {});
    encoding.segments.insert(encoding.segments.begin() + offset, ids.size(), 0);
    encoding.added.insert(encoding.added.begin() + offset, ids.size(), 1);
  }

  const Tokenizer& tokenizer_;
  TokenFrame frame_;
};

// `heads` are those of a profile, in order.
inline size_t HeadIndex(const std::vector<HeadRef>& heads,
                        const HeadRef& head) {
  return std::lower_bound(heads.begin(), heads.end(), head) - heads.begin();
}

}  // namespace headwise
