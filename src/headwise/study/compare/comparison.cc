// One head beside many. Door: comparison.h.
#include "headwise/study/compare/comparison.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>
#include <utility>

#include "headwise/base/distribution.h"
#include "headwise/error.h"
#include "headwise/multi_head_attention.h"

namespace headwise {
namespace {

// FNV-1a of the word in lower case: "The" and "the" are one word.
uint64_t WordHash(std::string_view word) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    hash = (hash ^ static_cast<uint64_t>(std::tolower(byte))) *
           uint64_t{0x100000001b3};
  }
  return hash;
}

// A random vector per word, plus sine and cosine of its position.
Tensor Embed(const std::vector<std::string>& words,
             const ComparisonOptions& options) {
  const int64_t width = options.d_model;
  Matrix x(static_cast<int64_t>(words.size()), width);
  for (int64_t r = 0; r < x.rows; ++r) {
    Rng rng(options.seed, WordHash(words[r]));
    for (int64_t c = 0; c < width; ++c) {
      const double angle = static_cast<double>(r) *
                           std::pow(10000.0, -static_cast<double>(c - c % 2) /
                                                 static_cast<double>(width));
      x(r, c) = rng.Normal() + (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return AsSequence(x);
}

std::span<const double> RowOf(const Matrix& a, int64_t row) {
  return {&a.values[static_cast<size_t>(row * a.columns)],
          static_cast<size_t>(a.columns)};
}

int64_t Favourite(std::span<const double> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

WordMixture Mix(const ComparedHeads& set, int64_t word) {
  WordMixture mixture;
  const std::span<const double> average = RowOf(set.average, word);
  mixture.average_favourite = Favourite(average);
  for (const HeadMap& map : set.maps) {
    const std::span<const double> row = RowOf(map.weights, word);
    mixture.lost += KlDivergence(row, average) / static_cast<double>(set.heads);
    mixture.favourites.push_back(Favourite(row));
    if (mixture.favourites.back() == mixture.average_favourite) ++mixture.kept;
  }
  // f32 maps sum to 1 only to rounding, which may leave it just below 0.
  mixture.lost = std::max(0.0, mixture.lost);
  mixture.distinct = std::exp(mixture.lost);
  return mixture;
}

// Said wherever such weights are shown.
constexpr char kUntrained[] =
    "Weights are untrained (seeded at random): this shows what one head or "
    "many can hold, not what a trained model has learned. Trained models are "
    "shipped of one head and of 8 heads.";

void Summarise(ComparedHeads& set) {
  const int64_t words = set.average.rows;
  const double count = static_cast<double>(words);
  for (int64_t w = 0; w < words; ++w) {
    const std::span<const double> average = RowOf(set.average, w);
    for (HeadMap& map : set.maps) {
      const std::span<const double> row = RowOf(map.weights, w);
      map.entropy += Entropy(row) / count;
      map.lost += std::max(0.0, KlDivergence(row, average)) / count;
    }
    set.words.push_back(Mix(set, w));
    set.average_entropy += Entropy(average) / count;
    set.lost += set.words.back().lost / count;
    set.distinct += (set.words.back().distinct - 1) / count;
  }
  for (const HeadMap& map : set.maps) {
    set.entropy += map.entropy / static_cast<double>(set.heads);
  }
}

ComparedHeads RunSet(Context& context, const Tensor& x, int64_t heads,
                     const ComparisonOptions& options) {
  const MultiHeadAttention module({.d_model = options.d_model, .heads = heads},
                                  options.seed);
  MultiHeadAttentionInput input{.x = x.view()};
  if (options.causal) input.mask = AttentionMask::Causal();
  std::vector<Matrix> maps;
  for (int64_t h = 0; h < heads; ++h) {
    maps.push_back(FromTensor(module.Weights(context, h, input)));
  }
  ComparedHeads set = SetOfMaps(std::move(maps));
  set.head_dim = module.config().head_dim;
  set.parameters = ParameterCount(module.config());
  return set;
}

std::string CommandOf(const ComparisonOptions& options) {
  return fmt::format("--untrained --heads {} --d-model {} --seed {}{}",
                     fmt::join(options.heads, ","), options.d_model,
                     options.seed, options.causal ? " --causal" : "");
}

void CheckOptions(const std::vector<std::string>& words,
                  const ComparisonOptions& options) {
  if (words.empty()) {
    RefuseComparison(
        "a sentence of at least one word", "none",
        "for example: headwise compare \"The cat sat on the mat\"");
  }
  const auto count = static_cast<int64_t>(words.size());
  if (count > kMaxCompareWords) {
    RefuseComparison(fmt::format("at most {} words", kMaxCompareWords),
                     fmt::format("{}", count), "give one sentence");
  }
  if (options.heads.empty()) {
    RefuseComparison("at least one number of heads", "none",
                     "for example `heads` 1,8");
  }
  if (options.d_model > 4096) {
    RefuseComparison("d_model of at most 4096",
                     fmt::format("{}", options.d_model), "");
  }
  for (int64_t heads : options.heads) {
    if (heads >= 1 && heads <= kMaxCompareHeads) continue;
    RefuseComparison(fmt::format("head counts from 1 to {}", kMaxCompareHeads),
                     fmt::format("{}", heads), "for example `heads` 1,8");
  }
}

}  // namespace

std::vector<std::string> SplitWords(std::string_view sentence) {
  std::vector<std::string> words;
  bool open = false;  // whether the last word may grow
  for (char c : sentence) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isspace(byte) != 0) {
      open = false;
    } else if (std::ispunct(byte) != 0 && c != '\'' && c != '-') {
      words.emplace_back(1, c);
      open = false;
    } else {
      if (!open) words.emplace_back();
      words.back() += c;
      open = true;
    }
  }
  return words;
}

void RefuseComparison(std::string expected, std::string found,
                      std::string hint) {
  throw Error(ErrorCode::kInvalidArgument, {"compare", std::move(expected),
                                            std::move(found), std::move(hint)});
}

bool SameTokens(const Comparison& comparison) {
  return std::all_of(comparison.sets.begin(), comparison.sets.end(),
                     [&](const ComparedHeads& set) {
                       return set.tokens == comparison.sets.front().tokens;
                     });
}

bool EqualWeights(const Comparison& comparison) {
  return std::all_of(comparison.sets.begin(), comparison.sets.end(),
                     [&](const ComparedHeads& set) {
                       return set.parameters ==
                              comparison.sets.front().parameters;
                     });
}

ComparedHeads SetOfMaps(std::vector<Matrix> maps) {
  ComparedHeads set;
  set.heads = static_cast<int64_t>(maps.size());
  set.average = Matrix(maps.front().rows, maps.front().columns);
  for (Matrix& weights : maps) {
    for (size_t i = 0; i < weights.values.size(); ++i) {
      set.average.values[i] +=
          weights.values[i] / static_cast<double>(set.heads);
    }
    set.maps.push_back({.weights = std::move(weights)});
  }
  Summarise(set);
  return set;
}

void AddSet(ComparedHeads set, Comparison& comparison) {
  for (const HeadMap& map : set.maps) {
    for (const double value : map.weights.values) {
      comparison.largest = std::max(comparison.largest, value);
    }
  }
  comparison.sets.push_back(std::move(set));
}

Comparison CompareHeads(Context& context, std::string_view sentence,
                        const ComparisonOptions& options) {
  Comparison comparison;
  comparison.sentence = sentence;
  const std::vector<std::string> words = SplitWords(sentence);
  comparison.about = kUntrained;
  comparison.command = CommandOf(options);
  CheckOptions(words, options);
  for (int64_t heads : options.heads) {  // refuse before any work
    Resolve({.d_model = options.d_model, .heads = heads});
  }
  const Tensor x = Embed(words, options);
  for (int64_t heads : options.heads) {
    ComparedHeads set = RunSet(context, x, heads, options);
    set.tokens = words;
    AddSet(std::move(set), comparison);
  }
  return comparison;
}

}  // namespace headwise
