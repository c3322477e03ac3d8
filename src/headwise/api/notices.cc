// Door: notices.h.
#include "headwise/api/notices.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/api/state.h"
#include "headwise/base/byte_size.h"
#include "headwise/drawing/text.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/text_notices.h"

namespace headwise {
namespace {

void TellIt(const Transformer& model, const std::string& notice) {
  if (!notice.empty()) model.state().options.on_notice(notice);
}

// Names of tensors in one notice, and their columns.
constexpr size_t kMostNamed = 3;
constexpr int kWidest = 100;

}  // namespace

void TellUnread(const Transformer& model) {
  if (!model.state().options.on_notice) return;
  const std::vector<std::string>& unread = model.info().unread;
  if (unread.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(unread.size(), kMostNamed); ++i) {
    names += (i > 0 ? ", " : "") + Shorten(unread[i], kWidest);
  }
  TellIt(model,
         fmt::format("[weights] expected nothing but the model's tensors; "
                     "found {} that {} does not read: {}{}; results are as if "
                     "they were absent",
                     unread.size(), model.info().model_type, names,
                     unread.size() > kMostNamed ? ", …" : ""));
}

void TellWeightMemory(const Transformer& model) {
  const OpenOptions& options = model.state().options;
  if (!options.on_notice || !options.weight_memory) return;
  const uint64_t most = model.state().model().MostPreparedBytes();
  if (most <= *options.weight_memory) return;
  TellIt(model,
         fmt::format("[`weight_memory`] expected {} to keep all weights packed "
                     "for products; found {}; products with the others pack "
                     "them each time: the same results, slower",
                     ByteSize(most), ByteSize(*options.weight_memory)));
}

void TellPastContext(const Transformer& model, int64_t tokens) {
  if (!model.state().options.on_notice) return;
  TellIt(model, PastContextNotice(model.state().checkpoint.config(), tokens));
}

void TellShared(const Transformer& model) {
  const ModelConfig& config = model.state().checkpoint.config();
  if (!model.state().options.on_notice || !SharesHeads(config)) return;
  const size_t uses = LayersSharing(config, 0).size();
  TellIt(model, fmt::format("[layers] expected heads of each layer's own; "
                            "found weights that layers share: a head is one "
                            "head, used {} times, and each use is a row here",
                            uses));
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
