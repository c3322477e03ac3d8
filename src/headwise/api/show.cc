// Where heads look on a text. Door: include/headwise/show.h.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/model/room.h"
#include "headwise/progress.h"
#include "headwise/runtime/attention_maps.h"
#include "headwise/runtime/text_notices.h"
#include "headwise/runtime/token_labels.h"
#include "headwise/show.h"
#include "headwise/text_input.h"

namespace headwise {
namespace {

// Tokens that are shown unless more are asked for: a run takes time that grows
// with their square.
constexpr int64_t kMostTokens = 8192;
// No tokenizer's tokens are longer on average.
constexpr size_t kBytesPerToken = 64;

// How many tokens of a text may be run.
int64_t RoomFor(const TextInput& text, const ModelConfig& config) {
  if (text.context > 0) return ContextOf(config, text.context);
  return config.open_positions() || config.context == 0
             ? kMostTokens
             : std::min(kMostTokens, config.context);
}

// The first document, of which about `enough` bytes are read, and whether there
// is more.
std::pair<Document, bool> FirstDocument(TextSource source, size_t enough) {
  Document document;
  while (std::optional<Document> piece = source.Next()) {
    const bool another = !document.text.empty() && piece->offset == 0;
    if (another || document.text.size() >= enough) return {document, true};
    document.text += piece->text;
  }
  return {document, false};
}

void TellLeftOut(const Transformer& model, const TextInput& text,
                 int64_t shown) {
  const OnNotice& tell = model.state().options.on_notice;
  if (!tell) return;
  const ModelConfig& config = model.state().checkpoint.config();
  const bool can_more = config.open_positions() || shown < config.context;
  tell(fmt::format("[show] the first {} tokens of the text are shown{}", shown,
                   text.context > 0 ? ""
                   : can_more ? "; `context` shows more, in a time that grows "
                                "with their square"
                              : ", all that the model has positions for"));
}

TokenWindow FirstWindow(const Transformer& model, const TextInput& text,
                        const std::string& target) {
  RequireOneKind(text);
  const ModelConfig& config = model.state().checkpoint.config();
  const int64_t room = RoomFor(text, config);
  std::vector<TokenWindow> windows;
  bool more = false;
  if (!text.ids.empty()) {
    windows = WindowsOfIds(model, text, room);
  } else {
    // No text has as many tokens as the bytes that are asked for here.
    constexpr int64_t kMostRoom = int64_t{1} << 40;
    auto [document, goes_on] = FirstDocument(
        SourceOf(text),
        static_cast<size_t>(std::min(room, kMostRoom)) * kBytesPerToken);
    if (!target.empty()) document.text += '\t' + target;
    more = goes_on;
    windows = WindowCutter(model.tokenizer(), config, {.context = room})
                  .Cut(document);
  }
  if (windows.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"show", "a text of at least two tokens", "one or none",
                 "give a longer text"});
  }
  if (more || windows.size() > 1) {
    TellLeftOut(model, text, Longest({windows.data(), 1}));
  }
  return std::move(windows[0]);
}

std::vector<std::string> LabelsOf(const Transformer& model,
                                  const TokenRow& row) {
  if (model.has_tokenizer()) return TokenLabels(row, model.tokenizer());
  std::vector<std::string> labels;
  for (const int32_t id : row.ids) labels.push_back(std::to_string(id));
  return labels;
}

}  // namespace

const std::vector<std::string>& ShownAttention::Queries(
    const MappedHead& map) const {
  return map.head.kind == AttentionKind::kSelf ? tokens : target_tokens;
}

const std::vector<std::string>& ShownAttention::Keys(
    const MappedHead& map) const {
  return map.head.kind == AttentionKind::kDecoder ? target_tokens : tokens;
}

ShownAttention ShowAttention(Transformer& model, const TextInput& text,
                             std::span<const HeadRef> heads,
                             const ShowJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "show");
  CheckFields(job, "show");
  if (heads.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"show", "at least one head", "none", "name some, as 5.1,6.0"});
  }
  for (const HeadRef& head : heads) RequireHead(model, head);
  Transformer::State& state = model.state();
  const TokenWindow window = FirstWindow(
      model, text, model.info().encoder_decoder ? job.target.value_or("") : "");
  RequireRoom(state.context, state.model(), Longest({&window, 1}));
  TellOf(model, {&window, 1});
  ShownAttention shown;
  shown.tokens = LabelsOf(model, window.source);
  shown.target_tokens = LabelsOf(model, window.target);
  shown.heads = MapHeads(state.context, state.model(), window,
                         {heads.begin(), heads.end()}, job);
  return shown;
}

}  // namespace headwise
