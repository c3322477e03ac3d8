// BLEU. Door: include/headwise/bleu.h.
#include "headwise/bleu.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsStop(char c) { return c == '.' || c == ','; }
// Every ASCII punctuation mark but ' , - . and the space.
bool IsSymbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') ||
         (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

// Where first(text[i]) and second(text[i + 1]) hold, writes before, the first,
// between, the second, after, and goes on behind both: what a regular
// expression's replacement does. Bytes serve as well as characters, since
// neither of a pair is ever the middle of one.
template <typename First, typename Second>
std::string SpacePairs(const std::string& text, const First& first,
                       const Second& second, bool before, bool after) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) {
      if (before) out += ' ';
      out += text[i];
      out += ' ';
      out += text[i + 1];
      if (after) out += ' ';
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

// As Python's str.split sees it: white space and the ASCII separators.
bool IsSpace(char32_t c) { return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F); }

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = CharacterAt(text, i);
    if (!IsSpace(c.value)) {
      words.back() += text.substr(i, c.bytes);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
    i += c.bytes;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

using Gram = std::vector<std::string_view>;

std::map<Gram, int64_t> CountGrams(const std::vector<std::string>& words,
                                   size_t order) {
  std::map<Gram, int64_t> counts;
  for (size_t i = 0; i + order <= words.size(); ++i) {
    ++counts[Gram(words.begin() + static_cast<ptrdiff_t>(i),
                  words.begin() + static_cast<ptrdiff_t>(i + order))];
  }
  return counts;
}

// Calls use(counts of a corpus drawn from `size` segments) for every draw.
template <typename Use>
void Resample(size_t size, const BleuJob& job, const Use& use) {
  std::vector<int64_t> times(size);
  Rng rng(job.seed);
  for (int64_t r = 0; r < job.replicates; ++r) {
    std::fill(times.begin(), times.end(), 0);
    for (size_t i = 0; i < size; ++i) ++times[rng.Below(size)];
    use(times);
  }
}

double Resampled(std::span<const BleuCounts> segments,
                 const std::vector<int64_t>& times) {
  BleuCounts sum;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (times[i] > 0) sum.Add(segments[i], times[i]);
  }
  return ComputeBleu(sum).score;
}

// The ends of the middle 95 %.
std::pair<double, double> Middle(std::vector<double> values) {
  if (values.empty()) return {NAN, NAN};
  std::sort(values.begin(), values.end());
  const auto out =
      static_cast<size_t>(.025 * static_cast<double>(values.size()));
  return {values[out], values[values.size() - 1 - out]};
}

BleuCounts Sum(std::span<const BleuCounts> segments) {
  BleuCounts sum;
  for (const BleuCounts& one : segments) sum.Add(one);
  return sum;
}

}  // namespace

std::vector<std::string> BleuTokens(std::string_view text) {
  std::string line = ReplaceInvalidUtf8(text);
  ReplaceAll(line, "<skipped>", "");
  ReplaceAll(line, "-\n", "");
  ReplaceAll(line, "\n", " ");
  ReplaceAll(line, "&quot;", "\"");
  ReplaceAll(line, "&amp;", "&");
  ReplaceAll(line, "&lt;", "<");
  ReplaceAll(line, "&gt;", ">");
  std::string spaced = " ";
  for (const char c : line) {
    if (IsSymbol(c)) {
      spaced += {' ', c, ' '};
    } else {
      spaced += c;
    }
  }
  spaced += ' ';
  const auto other = [](char c) { return !IsDigit(c); };
  const auto dash = [](char c) { return c == '-'; };
  spaced = SpacePairs(spaced, other, IsStop, false, true);
  spaced = SpacePairs(spaced, IsStop, other, true, false);
  spaced = SpacePairs(spaced, IsDigit, dash, false, true);
  return Split(spaced);
}

void BleuCounts::Add(const BleuCounts& other, int64_t times) {
  hypothesis += times * other.hypothesis;
  reference += times * other.reference;
  for (int n = 0; n < kOrders; ++n) {
    hits[n] += times * other.hits[n];
    total[n] += times * other.total[n];
  }
}

BleuCounts CountBleu(std::string_view hypothesis, std::string_view reference) {
  const std::vector<std::string> said = BleuTokens(hypothesis);
  const std::vector<std::string> wanted = BleuTokens(reference);
  BleuCounts counts;
  counts.hypothesis = static_cast<int64_t>(said.size());
  counts.reference = static_cast<int64_t>(wanted.size());
  for (int n = 0; n < BleuCounts::kOrders; ++n) {
    const auto order = static_cast<size_t>(n) + 1;
    const std::map<Gram, int64_t> found = CountGrams(wanted, order);
    for (const auto& [gram, count] : CountGrams(said, order)) {
      counts.total[n] += count;
      const auto match = found.find(gram);
      if (match != found.end()) {
        counts.hits[n] += std::min(count, match->second);
      }
    }
  }
  return counts;
}

std::vector<BleuCounts> CountBleu(std::span<const std::string> hypotheses,
                                  std::span<const std::string> references) {
  if (hypotheses.size() != references.size() || hypotheses.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"bleu",
         references.empty() ? "at least one line"
                            : fmt::format("{} lines, as many as the references",
                                          references.size()),
         std::to_string(hypotheses.size()), "one segment a line"});
  }
  std::vector<BleuCounts> counts;
  counts.reserve(hypotheses.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    counts.push_back(CountBleu(hypotheses[i], references[i]));
  }
  return counts;
}

BleuScore ComputeBleu(const BleuCounts& counts) {
  BleuScore score;
  if (counts.hypothesis < counts.reference) {
    score.brevity =
        counts.hypothesis == 0
            ? 0
            : std::exp(1 - static_cast<double>(counts.reference) /
                               static_cast<double>(counts.hypothesis));
  }
  if (counts.hits == decltype(counts.hits){}) return score;
  double smoothing = 1, logarithms = 0;
  for (int n = 0; n < BleuCounts::kOrders; ++n) {
    if (counts.total[n] == 0) return score;  // no such n-gram: BLEU is 0
    const auto total = static_cast<double>(counts.total[n]);
    double hits = static_cast<double>(counts.hits[n]);
    if (counts.hits[n] == 0) {
      smoothing *= 2;
      hits = 1 / smoothing;
    }
    score.precisions[n] = 100 * hits / total;
    logarithms += std::log(score.precisions[n]);
  }
  score.score = score.brevity * std::exp(logarithms / BleuCounts::kOrders);
  return score;
}

BleuEstimate EstimateBleu(std::span<const BleuCounts> segments,
                          const BleuJob& job) {
  BleuEstimate estimate;
  estimate.counts = Sum(segments);
  estimate.score = ComputeBleu(estimate.counts);
  std::vector<double> drawn;
  Resample(segments.size(), job, [&](const std::vector<int64_t>& times) {
    drawn.push_back(Resampled(segments, times));
  });
  std::tie(estimate.low, estimate.high) = Middle(std::move(drawn));
  return estimate;
}

BleuDifference CompareBleu(std::span<const BleuCounts> a,
                           std::span<const BleuCounts> b, const BleuJob& job) {
  if (a.size() != b.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"BLEU", std::to_string(a.size()) + " segments on both sides",
                 std::to_string(b.size()), ""});
  }
  BleuDifference difference;
  difference.value = ComputeBleu(Sum(a)).score - ComputeBleu(Sum(b)).score;
  std::vector<double> drawn;
  Resample(a.size(), job, [&](const std::vector<int64_t>& times) {
    drawn.push_back(Resampled(a, times) - Resampled(b, times));
  });
  std::tie(difference.low, difference.high) = Middle(std::move(drawn));
  return difference;
}

}  // namespace headwise
