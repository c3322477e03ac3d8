// Heads that follow dependencies. Door: materials.h.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "headwise/heads/profile/words/head_maps.h"
#include "headwise/heads/profile/words/links.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/profile/words/steps.h"
#include "headwise/model/text_frame.h"

namespace headwise {
namespace {

template <typename T>
using Offsets = std::array<T, 2 * kMostOffset + 1>;

// A sentence as it is run.
struct Sentence {
  std::vector<WordLink> links;
  std::vector<int32_t> word_of_token;
  std::vector<std::vector<int32_t>> tokens_of_word;
};

// FNV-1a: which half a sentence falls into depends on nothing but its text, so
// that shards of a treebank add up to one run over all of it.
bool SecondHalf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return (hash >> 32 & 1) != 0;
}

class Syntax {
 public:
  Syntax(Context& context, const Model& model, const WordOptions& options,
         const Profile& profile)
      : context_(context),
        model_(model),
        options_(options),
        heads_(profile.heads),
        counter_(heads_.size()) {}

  void Add(const TreebankSentence& sentence, const Encoding& encoding) {
    if (std::min(kLongestSentence, model_.config().context) <
        static_cast<int64_t>(encoding.size())) {
      ++counts_.too_long;
      return;
    }
    std::vector<TextSpan> words;
    for (const TreebankWord& word : sentence.words) words.push_back(word.bytes);
    Sentence next;
    next.word_of_token = WordsOfTokens(encoding, words);
    next.tokens_of_word = TokensOfWords(next.word_of_token, words.size());
    next.links = Links(sentence, next.tokens_of_word);
    if (next.links.empty()) return;
    if (batch_.tokens() + static_cast<int64_t>(encoding.size()) >
        kTokensPerRun) {
      Run();
    }
    ++counts_.sequences;
    counts_.cases += static_cast<int64_t>(next.links.size());
    batch_.Add(encoding.ids);
    sentences_.push_back(std::move(next));
  }

  void Run() {
    if (batch_.empty()) return;
    RunSelfMaps(context_, model_, batch_,
                [&](const HeadRef& head, size_t s, const AttentionMap& map) {
                  const Sentence& sentence = sentences_[s];
                  if (head.head == 0) counter_.BeginSequence(sentence.links);
                  counter_.Add(
                      HeadIndex(heads_, head),
                      MostAttendedWords(map, sentence.tokens_of_word,
                                        sentence.word_of_token,
                                        sentence.tokens_of_word.size(),
                                        options_.from, /*exclude_self=*/true));
                });
    batch_.Clear();
    sentences_.clear();
  }

  const WordCounts& counts() const { return counts_; }
  void AddTo(Profile& profile) const {
    counter_.AddTo(profile);
    for (const auto& [metric, tallies] : offsets_) {
      for (int k = -kMostOffset; k <= kMostOffset; ++k) {
        if (k == 0) continue;
        profile.baselines[counter_.NameOf(metric) + OffsetBaseline(k)].Merge(
            tallies[k + kMostOffset]);
      }
    }
  }

 private:
  // Both directions of every arc between words that tokens stand for.
  std::vector<WordLink> Links(
      const TreebankSentence& sentence,
      const std::vector<std::vector<int32_t>>& tokens_of_word) {
    const std::string half = SecondHalf(sentence.text) ? ".b" : ".a";
    std::vector<WordLink> links;
    const auto add = [&](int32_t from, int32_t to, const std::string& name) {
      if (model_.config().causal && to > from) return;
      links.push_back({from, to, counter_.Metric(name)});
    };
    for (size_t w = 0; w < sentence.words.size(); ++w) {
      const TreebankWord& word = sentence.words[w];
      if (word.governor < 0 || tokens_of_word[w].empty() ||
          tokens_of_word[word.governor].empty()) {
        continue;
      }
      const std::string name = "syntactic." + word.relation;
      add(static_cast<int32_t>(w), word.governor, name + ".up" + half);
      add(word.governor, static_cast<int32_t>(w), name + ".down" + half);
    }
    CountOffsets(links);
    return links;
  }

  // What always looking `offset` words away would have found.
  void CountOffsets(const std::vector<WordLink>& links) {
    std::map<int32_t, std::pair<double, Offsets<double>>> by_metric;
    for (const WordLink& link : links) {
      auto& [cases, hits] = by_metric[link.metric];
      ++cases;
      const int32_t distance = link.to - link.from;
      if (std::abs(distance) <= kMostOffset) ++hits[distance + kMostOffset];
    }
    for (const auto& [metric, counted] : by_metric) {
      for (size_t k = 0; k < counted.second.size(); ++k) {
        offsets_[metric][k].Add(counted.second[k], counted.first);
      }
    }
  }

  Context& context_;
  const Model& model_;
  const WordOptions& options_;
  const std::vector<HeadRef>& heads_;
  LinkCounter counter_;
  std::map<int32_t, Offsets<Tally>> offsets_;  // by metric
  WordCounts counts_;
  TokenBatch batch_;
  std::vector<Sentence> sentences_;
};

}  // namespace

std::string OffsetBaseline(int offset) {
  return ".offset." + std::to_string(offset);
}

WordCounts AddTreebank(Context& context, const Model& model,
                       const Tokenizer& tokenizer,
                       std::span<const TreebankSentence> sentences,
                       const WordOptions& options, Profile& profile) {
  Syntax syntax(context, model, options, profile);
  const Framer framer(tokenizer, model.config());
  for (size_t s = 0; s < sentences.size(); ++s) {
    ReportOrStop(options, "treebank", s, sentences.size());
    syntax.Add(sentences[s], framer.Encode(sentences[s].text));
  }
  syntax.Run();
  syntax.AddTo(profile);
  return syntax.counts();
}

}  // namespace headwise
