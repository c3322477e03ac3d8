// From documents to the sequences that a model is shown: token windows of a
// given length that never cross a document, each framed as the model knows
// texts (<bos> …, [CLS] … [SEP]), with every token's place in the text kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/text_frame.h"
#include "headwise/tokenizer/text_source.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Tokens of one side of a sequence: arrays of one length.
struct TokenRow {
  std::vector<int32_t> ids;
  std::vector<TextSpan> spans;  // bytes of *text; {0, 0} where added
  std::vector<uint8_t> added;   // 1: <bos>, [CLS], [SEP]: not of the text
  std::shared_ptr<const std::string> text;  // null where only ids were given

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

struct TokenWindow {
  TokenRow source;
  TokenRow target;      // encoder–decoders: what the decoder reads
  std::string name;     // of its document
  size_t argument = 0;  // of TextSource
  uint64_t offset = 0;  // of *source.text in its document, in bytes
  // A hash of the ids: what samples are drawn by, so that they do not depend
  // on the order of the windows.
  uint64_t key = 0;
};

struct WindowOptions {
  // Tokens of a window, its frame included. 0: the model's context or
  // kDefaultContext, whichever is shorter.
  int64_t context = 0;
};
inline constexpr int64_t kDefaultContext = 512;
// The longest window of a model that would take any, unless it knows longer
// ones: time grows with the square.
inline constexpr int64_t kOpenContext = int64_t{1} << 17;

// Cuts documents for one model. Throws Error(kInvalidArgument) for a context
// that the model cannot take. The tokenizer must outlive it.
class WindowCutter {
 public:
  WindowCutter(const Tokenizer& tokenizer, const ModelConfig& config,
               WindowOptions options = {});

  int64_t context() const { return context_; }
  const TokenFrame& frame() const { return frame_; }

  // Windows of at least two tokens of text each (a shorter rest is left out).
  // Encoder–decoders: each line "source<TAB>target" is a window, cut to the
  // context; Error(kInvalidArgument) for a line without a tab.
  std::vector<TokenWindow> Cut(const Document& document) const;

 private:
  std::vector<TokenWindow> CutPairs(const Document& document) const;

  const Tokenizer& tokenizer_;
  bool pairs_ = false;
  int64_t context_ = 0;
  TokenFrame frame_;
  TokenFrame target_frame_;
};

// Windows of the texts in order, until `most_tokens` are reached (0: all). See
// TextSource for the paths. Throws Error(kInvalidArgument) for texts of fewer
// than two tokens.
std::vector<TokenWindow> ReadWindows(const std::vector<std::string>& paths,
                                     const WindowCutter& cutter,
                                     int64_t most_tokens);
std::vector<TokenWindow> ReadWindows(TextSource source,
                                     const WindowCutter& cutter,
                                     int64_t most_tokens);

// A window of ids that come from elsewhere. `added_before` and `added_after`
// of them are not of the text.
TokenWindow WindowOfIds(std::vector<int32_t> ids, int64_t added_before = 0,
                        int64_t added_after = 0);

// Sets `key` from the ids.
void SetKey(TokenWindow& window);

// How long windows of this model are when `asked` (0: by default). Throws
// Error(kInvalidArgument) beyond what its positions can take.
int64_t ContextOf(const ModelConfig& config, int64_t asked);

}  // namespace headwise
