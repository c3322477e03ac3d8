// Door: notices.h.
#include "headwise/api/notices.h"

#include <string>

#include "headwise/api/state.h"
#include "headwise/runtime/text_notices.h"

namespace headwise {
namespace {

void TellIt(const Transformer& model, const std::string& notice) {
  if (!notice.empty()) model.state().options.on_notice(notice);
}

}  // namespace

void TellPastContext(const Transformer& model, int64_t tokens) {
  if (!model.state().options.on_notice) return;
  TellIt(model, PastContextNotice(model.state().checkpoint.config(), tokens));
}

void TellUnknownScript(const Transformer& model, std::string_view text) {
  if (!model.state().options.on_notice || !model.has_tokenizer()) return;
  TellIt(model, UnknownScriptNotice(model.tokenizer(), text));
}

void TellUnknownScript(const Transformer& model, TextSource& source) {
  if (!model.state().options.on_notice) return;
  if (const Document* document = source.Peek()) {
    TellUnknownScript(model, document->text);
  }
}

void TellOf(const Transformer& model, std::span<const TokenWindow> windows) {
  TellPastContext(model, Longest(windows));
  if (windows.empty() || windows[0].source.text == nullptr) return;
  TellUnknownScript(model, *windows[0].source.text);
}

}  // namespace headwise
