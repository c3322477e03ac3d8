// Door: text_input.h.
#include "headwise/api/text_input.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/model/text_frame.h"

namespace headwise {
namespace {

TokenRow RowOf(Encoding encoding, std::string text) {
  TokenRow row;
  row.ids = std::move(encoding.ids);
  row.spans = std::move(encoding.spans);
  row.added = std::move(encoding.added);
  row.text = std::make_shared<const std::string>(std::move(text));
  return row;
}

TokenRow Target(const Transformer& model, std::string_view text) {
  if (text.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"target", "what the decoder of an encoder–decoder reads",
                 "none", "or a text source<TAB>target"});
  }
  return RowOf(model.EncodeTarget(text), std::string(text));
}

void RequireTokens(const TokenWindow& window) {
  if (!window.source.ids.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"text", "at least one token", "none", "give a longer text"});
}

}  // namespace

int64_t JudgedContext(const ModelConfig& config, int64_t asked) {
  constexpr int64_t kShort = 256;
  return asked > 0 ? asked : std::min(kShort, config.context);
}

void RequireOneKind(const TextInput& text) {
  const int kinds = static_cast<int>(!text.texts.empty()) +
                    static_cast<int>(!text.files.empty()) +
                    static_cast<int>(!text.ids.empty());
  if (kinds == 1) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"text", "one of texts, files and ids",
               std::to_string(kinds) + " of them", "give the text once"});
}

TextSource SourceOf(const TextInput& text) {
  return text.files.empty() ? TextSource::OfTexts(text.texts)
                            : TextSource(text.files);
}

std::vector<TokenWindow> WindowsOfIds(const Transformer& model,
                                      const TextInput& text, int64_t context) {
  if (model.info().encoder_decoder) {
    throw Error(ErrorCode::kInvalidArgument,
                {"ids", "texts or files with source<TAB>target lines",
                 "ids, which have no target", "give pairs as text"});
  }
  std::vector<TokenWindow> windows;
  const int64_t most = text.tokens.value_or(0);
  int64_t left = most > 0 ? most : std::numeric_limits<int64_t>::max();
  for (const std::vector<int32_t>& row : text.ids) {
    RequireTokenIds(row, model.info().vocabulary, "ids");
    const int64_t size = std::ssize(row);
    const int64_t step = context > 0 ? context : size;
    for (int64_t begin = 0; begin + 1 < size && left > 0; begin += step) {
      const int64_t end =
          std::min({size, begin + step,
                    begin + std::max<int64_t>(2, std::min(left, size))});
      windows.push_back(WindowOfIds({row.begin() + begin, row.begin() + end}));
      left -= end - begin;
    }
  }
  if (windows.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"ids", "rows of at least two tokens",
                 "none among " + std::to_string(text.ids.size()) + " rows",
                 "a token is predicted from those before it"});
  }
  return windows;
}

std::vector<TokenWindow> WindowsOf(const Transformer& model,
                                   const TextInput& text, int64_t context,
                                   int64_t tokens) {
  RequireOneKind(text);
  const ModelConfig& config = model.state().checkpoint.config();
  std::vector<TokenWindow> windows;
  if (!text.ids.empty()) {
    windows = WindowsOfIds(model, text, ContextOf(config, context));
  } else {
    const WindowCutter cutter(model.tokenizer(), config, {.context = context});
    windows = ReadWindows(SourceOf(text), cutter, text.tokens.value_or(tokens));
  }
  TellOf(model, windows);
  return windows;
}

JudgedInput JudgedInputOf(const Transformer& model, const TextInput& text,
                          uint64_t seed) {
  const ModelConfig& config = model.state().checkpoint.config();
  const int64_t context = JudgedContext(config, text.context);
  JudgedInput input;
  input.windows = WindowsOf(model, text, context, kAnalysedTokens);
  input.examples = ExamplesOf(input.windows);
  if (const Tokenizer* tokenizer = model.state().checkpoint.FindTokenizer()) {
    input.objective = ObjectiveFor(*tokenizer);
  }
  input.objective.seed = seed;
  return input;
}

TokenWindow WholeText(const Transformer& model, std::string_view text,
                      std::string_view target) {
  TokenWindow window;
  std::string_view source = text;
  if (model.info().encoder_decoder) {
    source = text.substr(0, text.find('\n'));
    const size_t tab = source.find('\t');
    if (target.empty() && tab != source.npos) target = source.substr(tab + 1);
    source = source.substr(0, tab);
    window.target = Target(model, target);
  }
  window.source = RowOf(model.Encode(source), std::string(source));
  RequireTokens(window);
  TellOf(model, {&window, 1});
  return window;
}

TokenWindow WholeIds(const Transformer& model, std::span<const int32_t> ids,
                     std::string_view target) {
  RequireTokenIds(ids, model.info().vocabulary, "ids");
  TokenWindow window = WindowOfIds({ids.begin(), ids.end()});
  if (model.info().encoder_decoder) window.target = Target(model, target);
  RequireTokens(window);
  return window;
}

}  // namespace headwise
