// Door: whole_texts.h.
#include "headwise/api/whole_texts.h"

#include <algorithm>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/error.h"
#include "headwise/model/text_frame.h"

namespace headwise {

WholeTexts ReadWholeTexts(const Transformer& model,
                          std::span<const std::string> texts,
                          const std::string& prompt, int64_t most) {
  const TokenFrame frame =
      FrameOf(model.tokenizer(), model.state().checkpoint.config());
  if (most <= frame.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`context`",
                 "more than the " + std::to_string(frame.size()) +
                     " tokens around a text",
                 std::to_string(most), ""});
  }
  if (texts.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"texts", "a text", "none", "are the files empty?"});
  }
  TellUnknownScript(model, texts[0]);
  WholeTexts all;
  const auto room = static_cast<size_t>(most - frame.size());
  for (const std::string& text : texts) {
    const Encoding encoding =
        model.tokenizer().Encode(prompt + text, {.add_special_tokens = false});
    if (encoding.size() > room) ++all.cut;
    all.ids.push_back(
        Framed(encoding, frame, 0, std::min(room, encoding.size())).ids);
    if (!all.ids.back().empty()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"texts", "texts of at least one token", "an empty one", ""});
  }
  return all;
}

void ForBatches(const WholeTexts& texts,
                const std::function<void(const TextBatch&)>& use) {
  constexpr int64_t kTokensOfABatch = 2048;
  TextBatch batch;
  for (size_t i = 0; i < texts.ids.size(); ++i) {
    const std::vector<int32_t>& text = texts.ids[i];
    if (!batch.ids.empty() &&
        std::ssize(batch.ids) + std::ssize(text) > kTokensOfABatch) {
      use(batch);
      batch = {};
      batch.begin = i;
    }
    batch.ids.insert(batch.ids.end(), text.begin(), text.end());
    batch.lengths.push_back(std::ssize(text));
    batch.end = i + 1;
  }
  if (!batch.ids.empty()) use(batch);
}

}  // namespace headwise
