// Door: window_queue.h.
#include "headwise/heads/profile/window_queue.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/heads/profile/window_runs.h"

namespace headwise {
namespace {

// Tokens of a corpus that frequencies are counted on.
constexpr int64_t kCountedTokens = int64_t{1} << 20;

// Tokens [begin, end) of a row, framed as the row was.
TokenRow Part(const TokenRow& row, size_t begin, size_t end) {
  TokenRow part;
  part.text = row.text;
  const auto take = [&](size_t i) {
    part.ids.push_back(row.ids[i]);
    part.spans.push_back(row.spans.empty() ? TextSpan() : row.spans[i]);
    part.added.push_back(row.added[i]);
  };
  size_t before = 0, after = row.ids.size();
  while (before < after && row.added[before] != 0) take(before++);
  for (size_t i = begin; i < end; ++i) take(i);
  while (after > before && row.added[after - 1] != 0) --after;
  for (; after < row.ids.size(); ++after) take(after);
  return part;
}

// One window a sentence; those of one token, which no row can count in, are
// left out. Pairs of source and target are left whole.
std::vector<TokenWindow> CutSentences(TokenWindow window,
                                      const TokenTable& table) {
  std::vector<TokenWindow> sentences;
  if (window.target.size() > 0) {
    sentences.push_back(std::move(window));
    return sentences;
  }
  const TokenRow& row = window.source;
  size_t begin = 0;
  while (begin < row.ids.size() && row.added[begin] != 0) ++begin;
  for (size_t i = begin; i < row.ids.size() && row.added[i] == 0; ++i) {
    const bool last = i + 1 == row.ids.size() || row.added[i + 1] != 0;
    if (!last && !table.sentence_end(row.ids[i])) continue;
    if (i > begin) {
      TokenWindow& sentence = sentences.emplace_back();
      sentence.source = Part(row, begin, i + 1);
      sentence.name = window.name;
      sentence.argument = window.argument;
      sentence.offset = window.offset;
      SetKey(sentence);
    }
    begin = i + 1;
  }
  return sentences;
}

}  // namespace

WindowQueue::WindowQueue(const ModelConfig& config, const TokenTable& table,
                         bool sentences, bool counts)
    : config_(config),
      table_(table),
      sentences_(sentences),
      needs_counts_(counts),
      counts_(table.size()) {}

void WindowQueue::BeginCorpus() {
  counts_ = TokenCounts(table_.size());
  counted_ = 0;
  counting_ = true;
}

void WindowQueue::Add(TokenWindow window) {
  for (const TokenRow* row : {&window.source, &window.target}) {
    RequireTokenIds(row->ids, config_.vocabulary, "profile");
  }
  if (config_.encoder_decoder() && window.target.ids.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"profile", "a source and a target for an encoder–decoder",
                 "no target", "give lines source<TAB>target as text"});
  }
  if (counting_ && needs_counts_) counts_.Add(window.source.ids);
  counted_ += TokensOf(window);
  if (!sentences_) {
    waiting_.push_back(std::move(window));
    return;
  }
  for (TokenWindow& sentence : CutSentences(std::move(window), table_)) {
    waiting_.push_back(std::move(sentence));
  }
}

bool WindowQueue::IsReady(std::optional<int64_t> most) const {
  return !counting_ ||
         counted_ >= std::min(kCountedTokens, most.value_or(kCountedTokens));
}

std::span<const TokenWindow> WindowQueue::Take() {
  if (counting_ && needs_counts_) counts_.Finish();
  counting_ = false;
  return waiting_;
}

WindowQueue::Size WindowQueue::size() const {
  Size size;
  for (const TokenWindow& window : waiting_) {
    const int64_t rows = std::max(window.source.size(), window.target.size());
    size.longest = std::max(size.longest, rows);
    size.all += rows;
  }
  return size;
}

}  // namespace headwise
