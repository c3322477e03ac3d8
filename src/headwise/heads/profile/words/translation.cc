// Heads that attend to what is being translated. Door: materials.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "headwise/error.h"
#include "headwise/heads/profile/words/head_maps.h"
#include "headwise/heads/profile/words/lines.h"
#include "headwise/heads/profile/words/links.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/profile/words/steps.h"
#include "headwise/heads/profile/words/word_alignment.h"
#include "headwise/model/text_frame.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

struct Words {
  std::vector<std::string> lower;
  std::vector<TextSpan> bytes;
};

// Words between spaces; each punctuation character is one of its own.
Words SplitWords(std::string_view text) {
  Words words;
  bool open = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CharacterAt(text, at);
    const auto begin = static_cast<uint32_t>(at);
    at += c.bytes;
    if (IsWhitespace(c.value)) {
      open = false;
      continue;
    }
    const bool alone = IsPunctuation(c.value);
    if (!open || alone) {
      words.lower.emplace_back();
      words.bytes.push_back({begin, begin});
    }
    AppendUtf8(words.lower.back(), SimpleLowercase(c.value));
    words.bytes.back().end = static_cast<uint32_t>(at);
    open = !alone;
  }
  return words;
}

// The source word on the diagonal of target word t.
int32_t Diagonal(size_t t, size_t targets, size_t sources) {
  const double at = (static_cast<double>(t) + 0.5) *
                    static_cast<double>(sources) / static_cast<double>(targets);
  return static_cast<int32_t>(
      std::min(std::floor(at), static_cast<double>(sources - 1)));
}

// A pair as it is run.
struct RunPair {
  std::vector<WordLink> links;
  double diagonal = 0;  // links on the diagonal
  std::vector<std::vector<int32_t>> rows_of_word;
  std::vector<int32_t> word_of_source_token;
  size_t source_words = 0;
};

class Translation {
 public:
  Translation(Context& context, const Model& model, const WordOptions& options,
              const Profile& profile)
      : context_(context),
        model_(model),
        options_(options),
        heads_(profile.heads),
        counter_(heads_.size()) {}

  // links: one source word for each target word, −1 for none.
  void Add(const Encoding& source, const Words& source_words,
           const Encoding& target, const Words& target_words,
           std::span<const int32_t> links) {
    const int64_t longest = std::min(kLongestSentence, model_.config().context);
    const auto sources = static_cast<int64_t>(source.size());
    const auto targets = static_cast<int64_t>(target.size()) + 1;
    if (std::max(sources, targets) > longest) {
      ++counts_.too_long;
      return;
    }
    RunPair next;
    next.source_words = source_words.bytes.size();
    next.word_of_source_token = WordsOfTokens(source, source_words.bytes);
    next.rows_of_word = TokensOfWords(WordsOfTokens(target, target_words.bytes),
                                      target_words.bytes.size());
    const auto source_tokens =
        TokensOfWords(next.word_of_source_token, next.source_words);
    for (size_t t = 0; t < links.size(); ++t) {
      if (links[t] < 0 || next.rows_of_word[t].empty() ||
          source_tokens[links[t]].empty()) {
        continue;
      }
      next.links.push_back(
          {static_cast<int32_t>(t), links[t], counter_.Metric("translation")});
      next.diagonal +=
          Diagonal(t, links.size(), next.source_words) == links[t] ? 1 : 0;
    }
    if (next.links.empty()) return;
    if (target_.tokens() + targets > kTokensPerRun) Run();
    ++counts_.sequences;
    counts_.cases += static_cast<int64_t>(next.links.size());
    diagonal_.Add(next.diagonal, static_cast<double>(next.links.size()));
    source_.Add(source.ids);
    // The row that predicts token t has token t − 1 as its input.
    std::vector<int32_t> shifted = {
        static_cast<int32_t>(model_.config().decoder_start)};
    shifted.insert(shifted.end(), target.ids.begin(), target.ids.end());
    target_.Add(shifted);
    sentences_.push_back(std::move(next));
  }

  void Run() {
    if (sentences_.empty()) return;
    RunCrossMaps(
        context_, model_, source_, target_,
        [&](const HeadRef& head, size_t s, const AttentionMap& map) {
          const RunPair& one = sentences_[s];
          if (head.head == 0) counter_.BeginSequence(one.links);
          counter_.Add(
              HeadIndex(heads_, head),
              MostAttendedWords(map, one.rows_of_word, one.word_of_source_token,
                                one.source_words, options_.from,
                                /*exclude_self=*/false));
        });
    source_.Clear();
    target_.Clear();
    sentences_.clear();
  }

  void AddTo(Profile& profile) const {
    counter_.AddTo(profile);
    profile.baselines["translation.diagonal"].Merge(diagonal_);
  }
  const WordCounts& counts() const { return counts_; }

 private:
  Context& context_;
  const Model& model_;
  const WordOptions& options_;
  const std::vector<HeadRef>& heads_;
  LinkCounter counter_;
  Tally diagonal_;
  WordCounts counts_;
  TokenBatch source_, target_;
  std::vector<RunPair> sentences_;
};

}  // namespace

std::vector<TranslationPair> ParsePairs(std::string_view text,
                                        const std::string& where) {
  std::vector<TranslationPair> pairs;
  for (LineReader lines(text); const auto line = lines.Next();) {
    if (line->empty()) continue;
    const auto columns = SplitColumns(*line, '\t');
    const std::string at = fmt::format("{}, line {}", where, lines.number());
    if (columns.size() < 2) {
      throw Error(ErrorCode::kCorrupt,
                  {at, "source and target separated by a tab",
                   "\"" + std::string(line->substr(0, 40)) + "\" without one",
                   "each line is source, a tab, target"});
    }
    if (const size_t bad = FindInvalidUtf8(*line);
        bad != std::string_view::npos) {
      throw Error(ErrorCode::kCorrupt,
                  {at, "UTF-8",
                   fmt::format("byte {:#04x}",
                               static_cast<unsigned char>((*line)[bad])),
                   "save the file as UTF-8"});
    }
    pairs.push_back({std::string(columns[columns.size() - 2]),
                     std::string(columns.back())});
  }
  return pairs;
}

WordCounts AddTranslation(Context& context, const Model& model,
                          const Tokenizer& source_tokenizer,
                          const Tokenizer& target_tokenizer,
                          std::span<const TranslationPair> pairs,
                          const WordOptions& options, Profile& profile) {
  if (model.decoder() == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"translation", "an encoder–decoder", model.config().model_type,
                 "pairs tell of cross-attention"});
  }
  std::vector<WordPair> words;
  std::vector<Words> sources, targets;
  for (const TranslationPair& pair : pairs) {
    sources.push_back(SplitWords(pair.source));
    targets.push_back(SplitWords(pair.target));
    words.push_back({sources.back().lower, targets.back().lower});
  }
  const WordAligner aligner(words);
  const Framer source_framer(source_tokenizer, model.config());
  Translation translation(context, model, options, profile);
  for (size_t p = 0; p < pairs.size(); ++p) {
    ReportOrStop(options, "translation", p, pairs.size());
    translation.Add(
        source_framer.Encode(pairs[p].source), sources[p],
        target_tokenizer.Encode(pairs[p].target, {.add_special_tokens = false}),
        targets[p], aligner.Links(words[p]));
  }
  translation.Run();
  translation.AddTo(profile);
  return translation.counts();
}

}  // namespace headwise
