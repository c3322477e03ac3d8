// Notes on tokens. Door: notes.h.
#include "headwise/heads/profile/notes.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "headwise/tokenizer.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

constexpr int32_t kSmallVocabulary = 5000;
constexpr size_t kFrequent = 500;
constexpr double kFrequentShare = 0.6;

bool AllPunctuation(std::string_view text) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CharacterAt(text, at);
    at += c.bytes;
    if (IsWhitespace(c.value)) continue;
    if (!IsPunctuation(c.value)) return false;
    any = true;
  }
  return any;
}

bool EndsSentence(std::string_view text) {
  if (text.find('\n') != text.npos) return true;
  if (!AllPunctuation(text)) return false;
  for (const std::string_view end : {".", "!", "?", "。", "！", "？", "…"}) {
    if (text.find(end) != text.npos) return true;
  }
  return false;
}

// A byte that a vocabulary spells out: "<0x0A>".
bool IsByte(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token[5] == '>';
}

// Whether token i continues the word of token i − 1: they touch, and neither a
// space nor punctuation stands between them.
bool ContinuesWord(const TokenRow& row, const TokenNotes& notes, size_t i) {
  if (i == 0 || row.text == nullptr || notes.special[i - 1] != 0) return false;
  if (notes.punctuation[i] != 0 || notes.punctuation[i - 1] != 0) return false;
  const TextSpan before = row.spans[i - 1], here = row.spans[i];
  if (here.begin > before.end || here.begin >= row.text->size()) return false;
  return !IsWhitespace(CharacterAt(*row.text, here.begin).value);
}

void NoteWords(const TokenRow& row, TokenNotes& notes) {
  notes.word.assign(notes.ids.size(), -1);
  int32_t word = -1;
  for (size_t i = 0; i < notes.ids.size(); ++i) {
    if (notes.special[i] != 0) continue;
    if (!ContinuesWord(row, notes, i)) ++word;
    notes.word[i] = word;
  }
}

void NoteRarest(const TokenTable& table, const TokenCounts& counts,
                TokenNotes& notes) {
  const int64_t size = notes.size();
  for (int64_t begin = 0; begin < size;) {
    int64_t end = begin;
    while (end < size && !table.sentence_end(notes.ids[end])) ++end;
    end = std::min(end + 1, size);
    int64_t rarest = -1;
    for (int64_t i = begin; i < end; ++i) {
      if (notes.special[i] != 0 || notes.punctuation[i] != 0) continue;
      if (rarest < 0 ||
          counts.count(notes.ids[i]) < counts.count(notes.ids[rarest])) {
        rarest = i;
      }
    }
    if (rarest >= 0 && counts.rare(notes.ids[rarest])) {
      for (int64_t i = begin; i < end; ++i) {
        if (notes.special[i] == 0) {
          notes.rarest[i] = static_cast<int32_t>(rarest);
        }
      }
    }
    begin = end;
  }
}

// <bos>, <eos>, <pad> and the decoder's start, where the model has them.
std::set<int64_t> OfConfig(const ModelConfig& config) {
  std::set<int64_t> ids(config.eos.begin(), config.eos.end());
  ids.insert({config.bos, config.pad, config.decoder_start});
  std::erase_if(ids, [](int64_t id) { return id < 0; });
  return ids;
}

}  // namespace

std::vector<int32_t> SpecialTokens(const Tokenizer* tokenizer,
                                   const ModelConfig& config) {
  std::set<int64_t> ids = OfConfig(config);
  if (tokenizer != nullptr) {
    const TokenFrame frame = FrameOf(*tokenizer, config);
    ids.insert(frame.before.begin(), frame.before.end());
    ids.insert(frame.after.begin(), frame.after.end());
  }
  std::vector<int32_t> special;
  for (const int64_t id : ids) special.push_back(static_cast<int32_t>(id));
  return special;
}

TokenTable::TokenTable(const Tokenizer* tokenizer, const ModelConfig& config) {
  const int32_t size = static_cast<int32_t>(std::max<int64_t>(
      config.vocabulary, tokenizer != nullptr ? tokenizer->vocab_size() : 0));
  texts_.resize(size);
  special_.assign(size, 0);
  punctuation_.assign(size, 0);
  sentence_end_.assign(size, 0);
  for (const int64_t id : OfConfig(config)) {
    if (id < size) special_[id] = 1;
  }
  std::vector<int32_t> usable;
  for (int32_t id = 0; id < size; ++id) {
    bool plain = special_[id] == 0 && id < config.vocabulary;
    if (tokenizer == nullptr) {
      texts_[id] = fmt::format("#{}", id);
    } else {
      const int32_t one[] = {id};
      texts_[id] = tokenizer->Decode(one, {.skip_special_tokens = false});
      punctuation_[id] = AllPunctuation(texts_[id]) ? 1 : 0;
      sentence_end_[id] = EndsSentence(texts_[id]) ? 1 : 0;
      // Half a character is no text of its own: its bytes are shown.
      if (texts_[id].find("\uFFFD") != std::string::npos) {
        texts_[id] = PieceText(*tokenizer, id);
      }
      const auto token = tokenizer->Token(id);
      plain = plain && token.has_value() && !IsByte(*token) &&
              !tokenizer->IsSpecial(id);
    }
    if (plain) usable.push_back(id);
  }
  const size_t edge = usable.size() / 10;
  ordinary_.assign(usable.begin() + static_cast<int64_t>(edge),
                   usable.end() - static_cast<int64_t>(edge));
}

const std::string& TokenTable::text(int32_t id) const {
  static const std::string kNone;
  return id >= 0 && id < size() ? texts_[id] : kNone;
}

void TokenCounts::Add(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < counts_.size()) ++counts_[id];
  }
}

void TokenCounts::Finish() {
  std::vector<int32_t> order(counts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return counts_[a] > counts_[b];
  });
  frequent_.assign(counts_.size(), 0);
  if (counts_.size() >= kSmallVocabulary) {
    for (size_t i = 0; i < kFrequent; ++i) frequent_[order[i]] = 1;
    return;
  }
  const double total = static_cast<double>(
      std::accumulate(counts_.begin(), counts_.end(), int64_t{0}));
  double covered = 0;
  for (const int32_t id : order) {
    if (covered >= kFrequentShare * total) break;
    frequent_[id] = 1;
    covered += static_cast<double>(counts_[id]);
  }
}

TokenNotes Annotate(const TokenRow& row, const TokenTable& table,
                    const TokenCounts* counts) {
  TokenNotes notes;
  notes.ids = row.ids;
  const size_t size = row.ids.size();
  notes.special.resize(size);
  notes.punctuation.resize(size);
  notes.rare.resize(size);
  for (size_t i = 0; i < size; ++i) {
    const int32_t id = row.ids[i];
    notes.special[i] = row.added[i] != 0 || table.special(id) ? 1 : 0;
    if (notes.special[i] != 0) continue;
    notes.punctuation[i] = table.punctuation(id) ? 1 : 0;
    notes.rare[i] = counts != nullptr && counts->rare(id) ? 1 : 0;
  }
  NoteWords(row, notes);
  notes.rarest.assign(size, -1);
  if (counts != nullptr) NoteRarest(table, *counts, notes);
  return notes;
}

}  // namespace headwise
