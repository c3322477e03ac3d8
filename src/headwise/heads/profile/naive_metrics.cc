#include "headwise/heads/profile/naive_metrics.h"

#include <algorithm>
#include <cmath>

#include "headwise/heads/profile/profile.h"

namespace headwise {
namespace {

class Naive {
 public:
  Naive(const DenseRow& row, const TokenNotes& notes, bool causal,
        int64_t min_visible)
      : row_(row), n_(notes), causal_(causal), min_visible_(min_visible) {}

  std::map<std::string, double> Run() {
    FindSinks();
    for (int64_t i = 0; i < n_.size(); ++i) {
      if (Counts(i)) AddRow(i);
    }
    std::map<std::string, double> means;
    for (const auto& [name, sum] : sums_) {
      if (sum.second > 0) means[name] = sum.first / sum.second;
    }
    return means;
  }

 private:
  using Keys = std::vector<int64_t>;

  int64_t Visible(int64_t i) const { return causal_ ? i + 1 : n_.size(); }
  bool Counts(int64_t i) const {
    return i > 0 && n_.special[i] == 0 && Visible(i) >= min_visible_;
  }
  bool IsSink(int64_t j) const { return sinks_[j] != 0; }

  void FindSinks() {
    std::vector<double> received(n_.size()), seen(n_.size());
    double counted = 0;
    for (int64_t i = 0; i < n_.size(); ++i) {
      if (!Counts(i)) continue;
      counted += 1;
      const std::vector<double> p = row_(i);
      for (int64_t j = 0; j < Visible(i); ++j) {
        received[j] += p[j];
        seen[j] += 1;
      }
    }
    for (int64_t j = 0; j < n_.size(); ++j) {
      const bool heavy =
          seen[j] >= std::max(8.0, counted / 4) && received[j] > .3 * seen[j];
      sinks_.push_back(j == 0 || n_.special[j] != 0 || heavy ? 1 : 0);
    }
  }

  void Add(const std::string& name, double x, double w) {
    sums_[name].first += x;
    sums_[name].second += w;
  }

  // A set of target keys in all forms, for rows that see one of them.
  void AddTargets(const std::string& name, const Keys& keys, bool argmax) {
    if (keys.empty()) return;
    double mass = 0, content = 0, kept = 0;
    bool hit = false, kept_hit = false;
    for (const int64_t j : keys) {
      mass += p_[j];
      hit |= j == argmax_;
      if (IsSink(j)) continue;
      content += p_[j];
      kept += 1;
      kept_hit |= j == kept_argmax_;
    }
    Add(name, mass, 1);
    Add(name + ".chance", static_cast<double>(keys.size()) / visible_, 1);
    if (argmax) Add(name + ".argmax", hit ? 1 : 0, 1);
    if (kept == 0) return;
    Add(name + ".content", content, c_);
    Add(name + ".content.chance", c_ * kept / kept_visible_, c_);
    if (argmax) Add(name + ".content.argmax", kept_hit ? c_ : 0, c_);
  }

  template <typename Holds>
  Keys Where(const Holds& holds) const {
    Keys keys;
    const int64_t visible = Visible(i_);
    for (int64_t j = 0; j < visible; ++j) {
      if (holds(j)) keys.push_back(j);
    }
    return keys;
  }

  // Those at i + first to i + last.
  Keys Near(int64_t first, int64_t last) const {
    Keys keys;
    for (int64_t j = i_ + first; j <= i_ + last; ++j) {
      if (j >= 0 && j < Visible(i_)) keys.push_back(j);
    }
    return keys;
  }

  void AddRow(int64_t i) {
    i_ = i;
    p_ = row_(i);
    visible_ = static_cast<double>(Visible(i));
    argmax_ = kept_argmax_ = -1;
    c_ = 0;
    kept_visible_ = visible_;
    double entropy = 0, distance = 0, without_end = 0;
    const int64_t last = n_.size() - 1;
    for (int64_t j = 0; j < Visible(i); ++j) {
      if (p_[j] > 0) entropy -= p_[j] * std::log(p_[j]);
      distance += p_[j] * std::abs(static_cast<double>(i - j));
      if (argmax_ < 0 || p_[j] > p_[argmax_]) argmax_ = j;
      if (j != last || n_.special[last] == 0) {
        without_end = std::max(without_end, p_[j]);
      }
      if (IsSink(j)) {
        kept_visible_ -= 1;
        continue;
      }
      c_ += p_[j];
      if (kept_argmax_ < 0 || p_[j] > p_[kept_argmax_]) kept_argmax_ = j;
    }
    Add("content", c_, 1);
    Add("entropy", entropy, 1);
    Add("entropy.normalised", entropy / std::log(visible_), 1);
    Add("broad", entropy / std::log(visible_) > .8 ? 1 : 0, 1);
    Add("confidence", without_end, 1);
    Add("max", *std::max_element(p_.begin(), p_.end()), 1);
    Add("distance", distance, 1);
    Add("distance.argmax", std::abs(static_cast<double>(i - argmax_)), 1);
    AddPlaces();
    AddContents();
  }

  void AddPlaces() {
    for (int k = -kMostOffset; k <= kMostOffset; ++k) {
      AddTargets(OffsetMetric(k), Near(k, k), true);
    }
    AddTargets("local", Near(-4, 4), false);
    AddTargets("first", {0}, true);
    if (!causal_) AddTargets("last", {n_.size() - 1}, true);
    AddTargets("sink", Where([&](int64_t j) { return IsSink(j); }), true);
    const auto sep = [&](int64_t j) { return j > 0 && n_.special[j] != 0; };
    const auto cls = [&](int64_t j) {
      return !causal_ && j == 0 && n_.special[0] != 0;
    };
    AddTargets("delimiter.cls", Where(cls), false);
    AddTargets("delimiter.sep", Where(sep), false);
    const auto mark = [&](int64_t j) { return n_.punctuation[j] != 0; };
    AddTargets("delimiter.punctuation", Where(mark), false);
    AddTargets("delimiter",
               Where([&](int64_t j) { return cls(j) || sep(j) || mark(j); }),
               false);
  }

  void AddContents() {
    const auto same = [&](int64_t j) {
      return j >= 0 && j < i_ && n_.special[j] == 0 && n_.ids[j] == n_.ids[i_];
    };
    AddTargets("duplicate", Where(same), false);
    AddTargets("induction", Where([&](int64_t j) {
                 return n_.special[j] == 0 && same(j - 1);
               }),
               false);
    AddTargets("rare.mass", Where([&](int64_t j) { return n_.rare[j] != 0; }),
               false);
    const int64_t r = n_.rarest[i_];
    if (r < 0 || r == i_ || r >= Visible(i_)) return;
    Add("rare.argmax", argmax_ == r ? 1 : 0, 1);
    Add("rare.argmax.chance", 1 / visible_, 1);
    if (IsSink(r)) return;
    Add("rare.argmax.content", kept_argmax_ == r ? c_ : 0, c_);
    Add("rare.argmax.content.chance", c_ / kept_visible_, c_);
  }

  const DenseRow& row_;
  const TokenNotes& n_;
  bool causal_;
  int64_t min_visible_;
  std::vector<uint8_t> sinks_;  // of every key, whether it is one
  std::map<std::string, std::pair<double, double>> sums_;
  // The row at hand.
  int64_t i_ = 0, argmax_ = -1, kept_argmax_ = -1;
  std::vector<double> p_;
  double visible_ = 0, kept_visible_ = 0, c_ = 0;
};

}  // namespace

std::map<std::string, double> NaiveMetrics(const DenseRow& row,
                                           const TokenNotes& notes, bool causal,
                                           int64_t min_visible) {
  std::map<std::string, double> means =
      Naive(row, notes, causal, min_visible).Run();
  // Forms that are not kept: sinks have no content, and say so themselves.
  for (const char* name : {"first", "sink", "delimiter.cls", "delimiter.sep"}) {
    for (const char* form :
         {".content", ".content.chance", ".content.argmax"}) {
      means.erase(std::string(name) + form);
    }
  }
  return means;
}

}  // namespace headwise
