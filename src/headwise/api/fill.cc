// Filling masks of a text. Door: include/headwise/fill.h.
#include "headwise/fill.h"

#include <optional>
#include <string>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/runtime/fill.h"

namespace headwise {
namespace {

// A text may write the mask of another model.
std::string WithMask(std::string_view given, std::string_view own) {
  std::string text(given);
  for (const std::string_view name : {"[MASK]", "<mask>"}) {
    if (name == own) continue;
    for (size_t at = text.find(name); at != text.npos; at = text.find(name)) {
      text.replace(at, name.size(), own);
    }
  }
  return text;
}

std::string WordOf(const Tokenizer& tokenizer, int32_t id) {
  const std::string text = tokenizer.Decode({&id, 1});
  return text.empty() ? tokenizer.Token(id).value_or("?") : text;
}

}  // namespace

FilledText FillMasks(Transformer& model, std::string_view text,
                     const FillJob& job) {
  const ModelUse use(model);
  CheckFields(job, "fill");
  Transformer::State& state = model.state();
  const Tokenizer& tokenizer = model.tokenizer();
  const std::optional<int32_t> mask = MaskToken(tokenizer);
  if (!mask) {
    throw Error(ErrorCode::kUnsupported,
                {model.folder().string(), "a tokenizer with [MASK] or <mask>",
                 "none", "causal models continue texts: headwise generate"});
  }
  const std::string masked =
      WithMask(text, tokenizer.Token(*mask).value_or("[MASK]"));
  TellUnknownScript(model, masked);
  FilledText filled;
  filled.ids = model.Encode(masked).ids;
  filled.masks = FillMasks(state.context, state.model(), filled.ids, *mask,
                           job.top, state.interventions->hooks());
  for (FilledMask& one : filled.masks) {
    for (MaskGuess& guess : one.guesses) {
      guess.token = WordOf(tokenizer, guess.id);
    }
  }
  return filled;
}

}  // namespace headwise
