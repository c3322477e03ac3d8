// Curves of orders. Door: curve.h.
#include "headwise/heads/pruning/curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/profile.h"

namespace headwise {
namespace {

struct Order {
  std::string name;
  std::vector<HeadSet> sets;
};

// So many of the growing sets, evenly by their numbers of heads, the last
// included.
std::vector<HeadSet> Spread(const std::vector<HeadSet>& sets, int64_t points) {
  std::vector<HeadSet> some;
  const auto most = static_cast<double>(sets.back().size());
  size_t next = 1;
  for (int64_t point = 1; point <= points; ++point) {
    const double wanted =
        most * static_cast<double>(point) / static_cast<double>(points);
    size_t found = next;
    while (found < sets.size() &&
           static_cast<double>(sets[found].size()) + 0.5 < wanted) {
      ++found;
    }
    if (found >= sets.size()) break;
    some.push_back(sets[found]);
    next = found + 1;
  }
  return some;
}

std::vector<Order> Orders(const Model& model, std::span<const double> scores,
                          const CurveOptions& options) {
  std::vector<Order> orders;
  const auto add = [&](std::string name, const std::vector<double>& by) {
    orders.push_back(
        {std::move(name),
         Spread(RemovalSets(model, by, options.choose), options.points)});
  };
  std::vector<double> by(scores.begin(), scores.end());
  add("importance", by);
  for (double& score : by) score = -score;
  add("reversed", by);
  for (int64_t order = 0; order < options.random_orders; ++order) {
    Rng rng(options.seed, static_cast<uint64_t>(order) + 1);
    for (double& score : by) score = rng.Uniform();
    add(fmt::format("random {}", order + 1), by);
  }
  return orders;
}

double Area(const std::vector<CurvePoint>& points) {
  double area = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    area += 0.5 * (points[i].loss + points[i - 1].loss) *
            static_cast<double>(points[i].removed - points[i - 1].removed);
  }
  return points.back().removed > 0
             ? area / static_cast<double>(points.back().removed)
             : points[0].loss;
}

Interval MeanOf(const std::vector<double>& values) {
  Tally tally;
  for (const double value : values) tally.Add(value, 1);
  const Estimate estimate = tally.Ratio();
  return {estimate.mean, estimate.low, estimate.high};
}

}  // namespace

PruningCurve MakeCurve(const Model& model, std::span<const double> scores,
                       const JudgedText& text, const HeadOutputs* means,
                       const CurveOptions& options) {
  const std::vector<Order> orders = Orders(model, scores, options);
  std::vector<HeadSet> variants;
  for (const Order& order : orders) {
    variants.insert(variants.end(), order.sets.begin(), order.sets.end());
  }
  const LossTable losses = text.Closed(variants, means);
  PruningCurve curve;
  curve.heads = std::ssize(AllHeads(model));
  size_t next = 0;
  std::vector<double> random;
  for (const Order& order : orders) {
    CurveOrder drawn;
    drawn.name = order.name;
    drawn.points.push_back({0, text.loss()});
    for (const HeadSet& set : order.sets) {
      drawn.points.push_back({std::ssize(set), text.Mean(losses[next++])});
    }
    drawn.area = Area(drawn.points);
    if (curve.orders.size() >= 2) random.push_back(drawn.area);
    curve.orders.push_back(std::move(drawn));
  }
  curve.random_area = MeanOf(random);
  const double importance = curve.orders[0].area;
  curve.gain = {importance - curve.random_area.value,
                importance - curve.random_area.high,
                importance - curve.random_area.low};
  return curve;
}

}  // namespace headwise
