// Assigning roles by the table. Door: roles.h.
#include "headwise/heads/roles/roles.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "headwise/heads/profile/words/positions.h"
#include "headwise/heads/roles/syntactic.h"

namespace headwise {
namespace {

// Scores are sums of float probabilities: what is exactly at a threshold may
// come out a rounding below it.
constexpr double kRounding = 1e-5;
// An offset that fewer of the rows have is not judged.
constexpr double kLeastOffsetRows = 0.5;
// The largest of several offsets is larger by this factor.
constexpr double kClearlyMore = 1.05;
constexpr const char* kRepeatsPrefix = "repeats.";
constexpr const char* kRepeatsOncePrefix = "repeats-50x2.";

// ".77", "1.00", "-.05"
std::string Points(double share) {
  std::string text = fmt::format("{:.2f}", share);
  const size_t zero = text.find("0.");
  if (zero <= 1 && (zero == 0 || text[0] == '-')) text.erase(zero, 1);
  return text;
}

// The end of an estimate's interval that a threshold from below must reach; of
// one sequence, which has no interval, the mean.
double Surely(const Estimate& score) {
  return std::isfinite(score.low) ? score.low : score.mean;
}
double AtMost(const Estimate& score) {
  return std::isfinite(score.high) ? score.high : score.mean;
}
bool Reaches(double value, double threshold) {
  return value >= threshold - kRounding;
}

// A rule applied to a head.
struct Judgement {
  Role role;
  bool passes = false;
  // The score alone would pass, but not its whole interval.
  bool unsure = false;
  double threshold = 0;
  size_t rule = 0;  // place in the table
};

class Judge {
 public:
  Judge(const Profile& profile, const RoleJob& job)
      : profile_(profile), job_(job), relations_(ReadRelations(profile)) {
    for (const std::string& one : job.thresholds) thresholds_.Set(one);
  }

  HeadRoles Head(size_t head) const {
    HeadRoles result;
    result.head = profile_.heads[head];
    const bool cross = result.head.kind == AttentionKind::kCross;
    bool offset_passes = false, content_offset_passes = false;
    std::vector<Judgement> all;
    const auto rules = RoleRules();
    for (size_t r = 0; r < rules.size(); ++r) {
      const RoleRule& rule = rules[r];
      if (rule.scope == RuleScope::kSelf && cross) continue;
      if (rule.scope == RuleScope::kCross && !cross) continue;
      std::vector<Judgement> found = Apply(rule, head);
      for (Judgement& judgement : found) {
        const bool excluded = judgement.role.sink_excluded;
        if (rule.positional && judgement.passes) {
          (excluded ? content_offset_passes : offset_passes) = true;
        }
        if (rule.no_offset &&
            (excluded ? content_offset_passes : offset_passes)) {
          continue;
        }
        judgement.rule = r;
        all.push_back(std::move(judgement));
      }
    }
    Sort(all);
    for (Judgement& judgement : all) {
      if (judgement.passes) result.roles.push_back(std::move(judgement.role));
    }
    if (result.roles.empty()) result.closest = Closest(all);
    return result;
  }

 private:
  std::vector<Judgement> Apply(const RoleRule& rule, size_t head) const {
    const std::string role = rule.role;
    if (role == "syntactic") return Syntactic(rule, head);
    if (rule.baseline != nullptr) return AboveBaseline(rule, head);
    std::vector<Judgement> all;
    if (role == "offset") {
      for (int offset = -kMostOffset; offset <= kMostOffset; ++offset) {
        if (std::abs(offset) < 2) continue;
        Share(rule, OffsetMetric(offset), fmt::format("offset {}", offset),
              head, all);
      }
    } else {
      Share(rule, rule.metric, role, head, all);
    }
    return all;
  }

  // A role that is a share of mass, or a mean, on the materials it may be
  // judged on.
  void Share(const RoleRule& rule, const std::string& metric,
             const std::string& name, size_t head,
             std::vector<Judgement>& all) const {
    const size_t before = all.size();
    if (job_.words && (rule.positional || rule.no_offset)) {
      OnMaterial(rule, {kWordsPrefix, metric, "text, by words"}, name, head,
                 all);
      return;
    }
    OnMaterial(rule, FormOf(rule, metric), name, head, all);
    const bool judged = all.size() > before;
    const bool passed = std::any_of(all.begin() + before, all.end(),
                                    [](const auto& j) { return j.passes; });
    if (passed || rule.repeats == OnRepeats::kNo ||
        (judged && rule.repeats == OnRepeats::kInstead)) {
      return;
    }
    OnMaterial(rule, {kRepeatsPrefix, metric, "random repeats"}, name, head,
               all);
  }

  struct Where {
    std::string prefix;  // of metric names
    std::string metric;
    std::string material;
  };

  // Random repeats have two forms, whose names are shown.
  Where FormOf(const RoleRule& rule, const std::string& metric) const {
    if (metric != "repeats.induction") return {"", metric, rule.material};
    const std::string prefix = job_.repeat_form == RepeatForm::k50x2
                                   ? kRepeatsOncePrefix
                                   : kRepeatsPrefix;
    return {prefix, "induction",
            fmt::format("{}, {}", rule.material, Name(job_.repeat_form))};
  }

  // With the sinks, and where that fails without them.
  void OnMaterial(const RoleRule& rule, const Where& where,
                  const std::string& name, size_t head,
                  std::vector<Judgement>& all) const {
    const std::string metric = where.prefix + where.metric;
    const Estimate score = profile_.Get(metric, head);
    if (!(score.count > 0)) return;
    if (rule.positional &&
        score.count < kLeastOffsetRows *
                          profile_.Get(where.prefix + "self", head).count) {
      return;
    }
    const std::string content_metric = metric + ".content";
    const Estimate content = profile_.Get(content_metric, head);
    const bool has_content = rule.content && content.count > 0;
    Judgement with = OneShare(rule, where, metric, name, head);
    if (has_content) {
      with.role.evidence += fmt::format("{}without sinks {}",
                                        with.role.evidence.empty() ? "" : ", ",
                                        Points(content.mean));
    }
    const bool passes = with.passes;
    all.push_back(std::move(with));
    if (passes || !has_content) return;
    const double mass = 1 - profile_.Get(SinkMetric(metric), head).mean;
    if (!(mass >= thresholds_.content_mass())) return;
    Judgement without = OneShare(rule, where, content_metric, name, head);
    without.role.sink_excluded = true;
    without.role.content_mass = mass;
    without.role.evidence +=
        fmt::format("{}with them {}", without.role.evidence.empty() ? "" : ", ",
                    Points(score.mean));
    all.push_back(std::move(without));
  }

  // Mass on the sinks, on the material of a metric.
  static std::string SinkMetric(const std::string& metric) {
    for (const char* prefix : {kRepeatsPrefix, kRepeatsOncePrefix}) {
      if (metric.starts_with(prefix)) return std::string(prefix) + "sink";
    }
    return "sink";
  }

  // `metric` is where.metric in one of its forms.
  Judgement OneShare(const RoleRule& rule, const Where& where,
                     const std::string& metric, const std::string& name,
                     size_t head) const {
    const Estimate score = profile_.Get(metric, head);
    const Estimate chance = profile_.Get(metric + ".chance", head);
    const Estimate argmax = profile_.Get(metric + ".argmax", head);
    Judgement result = Start(rule, name, score);
    result.role.material = where.material;
    const auto passes = [&](double value, double largest, double most) {
      bool enough = Reaches(value, result.threshold);
      if (rule.positional && argmax.count > 0) {
        enough |= Reaches(largest, thresholds_.argmax()) &&
                  IsLargestOffset(where, metric, head);
      }
      if (chance.count > 0) {
        enough &= Reaches(value - chance.mean, rule.above_chance) &&
                  Reaches(value, rule.times_chance * chance.mean);
      }
      return enough && most < rule.below;
    };
    result.passes = passes(Surely(score), Surely(argmax), AtMost(score));
    result.unsure =
        !result.passes && passes(score.mean, argmax.mean, score.mean);
    if (rule.positional && argmax.count > 0) {
      result.role.evidence =
          fmt::format("largest key in {:.0f} % of rows", 100 * argmax.mean);
    }
    if (chance.count > 0) {
      if (!result.role.evidence.empty()) result.role.evidence += ", ";
      result.role.evidence += "chance " + Points(chance.mean);
    }
    return result;
  }

  // Whether no other offset gets as much mass: of equal keys the first counts
  // as the largest, so that in an even band one offset would always win.
  bool IsLargestOffset(const Where& where, const std::string& metric,
                       size_t head) const {
    const std::string form =
        metric.ends_with(".content") ? std::string(".content") : "";
    const double least = profile_.Get(metric, head).mean / kClearlyMore;
    for (int offset = -kMostOffset; offset <= kMostOffset; ++offset) {
      const std::string other = OffsetMetric(offset);
      if (other == where.metric) continue;
      if (profile_.Get(where.prefix + other + form, head).mean >= least) {
        return false;
      }
    }
    return true;
  }

  std::vector<Judgement> AboveBaseline(const RoleRule& rule,
                                       size_t head) const {
    const Estimate score = profile_.Get(rule.metric, head);
    if (!(score.count > 0)) return {};
    double best = 0;
    std::string text;
    for (const char* name : {rule.baseline, rule.second_baseline}) {
      if (name == nullptr) continue;
      const double value = BaselineShare(profile_, name);
      best = std::max(best, value);
      const std::string what = name + std::string(rule.metric).size() + 1;
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", what, Points(value));
    }
    Judgement result = Start(rule, rule.role, score);
    RaiseTo(result, best);
    const bool enough = score.count >= rule.least_cases;
    result.passes = enough && Reaches(Surely(score), result.threshold);
    result.unsure =
        enough && !result.passes && Reaches(score.mean, result.threshold);
    result.role.evidence = text;
    return {result};
  }

  std::vector<Judgement> Syntactic(const RoleRule& rule, size_t head) const {
    std::vector<Judgement> all;
    for (const Relation& relation : relations_) {
      Judgement best;
      bool any = false;
      for (const RelationWay& way : relation.ways) {
        const Estimate chosen = profile_.Get(way.metric + ".a", head);
        const Estimate shown = profile_.Get(way.metric + ".b", head);
        if (!(chosen.count > 0) || shown.count < rule.least_cases) continue;
        Judgement one =
            Start(rule, fmt::format("syntactic({})", relation.name), shown);
        RaiseTo(one, way.second.share);
        // One half chooses, the other decides.
        const bool is_chosen =
            Reaches(chosen.mean - way.first.share, thresholds_.Of(rule));
        one.passes = is_chosen && Reaches(Surely(shown), one.threshold);
        one.unsure =
            is_chosen && !one.passes && Reaches(shown.mean, one.threshold);
        one.role.evidence = fmt::format(
            "{}, best offset {:+} {}", way.up ? "to governor" : "to dependent",
            way.second.offset, Points(way.second.share));
        if (!any || one.role.strength > best.role.strength) best = one;
        any = true;
      }
      if (any) all.push_back(std::move(best));
    }
    return all;
  }

  Judgement Start(const RoleRule& rule, const std::string& name,
                  const Estimate& score) const {
    Judgement result;
    result.threshold = thresholds_.Of(rule);
    result.role.name = name;
    result.role.letter = rule.letter;
    result.role.score = score.mean;
    result.role.low = score.low;
    result.role.high = score.high;
    result.role.count = score.count;
    result.role.material = rule.material;
    result.role.shape = rule.shape;
    SetStrength(result);
    return result;
  }

  // A threshold in points above a baseline.
  static void RaiseTo(Judgement& judgement, double baseline) {
    judgement.threshold += baseline;
    SetStrength(judgement);
  }
  static void SetStrength(Judgement& judgement) {
    const double room = std::max(1 - judgement.threshold, 1e-3);
    judgement.role.strength =
        (judgement.role.score - judgement.threshold) / room;
  }

  // Strongest first; what holds only off the sinks, secondary roles and shapes
  // after the others. Self stands behind every other offset: both pass only
  // where they share the mass evenly, and edge rows would decide otherwise.
  static void Sort(std::vector<Judgement>& all) {
    const auto key = [](const Judgement& j) {
      double strength = j.role.strength;
      if (j.role.name == "self" && j.passes) strength = std::min(strength, 0.0);
      return std::tuple(j.role.shape, j.role.sink_excluded,
                        RoleRules()[j.rule].secondary, -strength, j.rule);
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const Judgement& a, const Judgement& b) {
                       return key(a) < key(b);
                     });
  }

  // Of the rules that did not pass, the strongest whose score did, if not its
  // interval; else the one that is the largest part there.
  static std::string Closest(const std::vector<Judgement>& all) {
    const Judgement* best = nullptr;
    double part = 0;
    for (const Judgement& judgement : all) {
      if (judgement.role.sink_excluded) continue;
      if (judgement.unsure) return Unsure(judgement);
      const RoleRule& rule = RoleRules()[judgement.rule];
      if (judgement.role.score >= rule.below) {
        return "uniform, as by chance";
      }
      const double here = judgement.role.score / judgement.threshold;
      if (here > part && here < 1) {
        part = here;
        best = &judgement;
      }
    }
    if (best == nullptr) return "";
    return fmt::format("{} {} of {}", best->role.name, Points(best->role.score),
                       Points(best->threshold));
  }
  static std::string Unsure(const Judgement& judgement) {
    const Role& role = judgement.role;
    return fmt::format("{} {} [{}, {}] of {}, not surely", role.name,
                       Points(role.score), Points(role.low), Points(role.high),
                       Points(judgement.threshold));
  }

  const Profile& profile_;
  RoleThresholds thresholds_;
  const RoleJob& job_;
  std::vector<Relation> relations_;
};

}  // namespace

std::vector<HeadRoles> AssignRoles(const Profile& profile, const RoleJob& job) {
  const Judge judge(profile, job);
  std::vector<HeadRoles> all;
  for (size_t head = 0; head < profile.heads.size(); ++head) {
    all.push_back(judge.Head(head));
  }
  return all;
}

bool HeadRoles::HasFunction() const {
  return std::any_of(roles.begin(), roles.end(),
                     [](const Role& role) { return !role.shape; });
}

RoleCounts CountRoles(std::span<const HeadRoles> heads) {
  RoleCounts counts;
  for (const HeadRoles& head : heads) {
    if (head.HasFunction()) {
      ++counts.with_function;
    } else if (!head.roles.empty()) {
      ++counts.shape_only;
    }
  }
  return counts;
}

std::set<HeadRef> HeadsWithRoles(const Profile& profile) {
  std::set<HeadRef> heads;
  for (const HeadRoles& head : AssignRoles(profile)) {
    if (!head.roles.empty()) heads.insert(head.head);
  }
  return heads;
}

const char* Name(RepeatForm form) {
  return FieldWords(form)[static_cast<size_t>(form)];
}

std::string ToString(const Role& role) {
  if (!role.sink_excluded) return role.name;
  return fmt::format("{} (when not at the sink, c = {})", role.name,
                     Points(role.content_mass));
}

}  // namespace headwise
