// Heads that need all of the past, by their roles and by how far they look:
// what a cache policy keeps whole. Door: roles.h.
#include "headwise/heads/roles/roles.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/head_ref.h"
#include "headwise/heads/roles/rules.h"
#include "headwise/observation.h"

namespace headwise {
namespace {

double FarMass(const Profile& profile, size_t head, int64_t window) {
  if (profile.counts.tokens == 0 || head >= profile.histograms.size()) return 0;
  const std::vector<double>& mass = profile.histograms[head];
  const double all = std::accumulate(mass.begin(), mass.end(), 0.0);
  if (!(all > 0)) return 0;
  double far = 0;
  for (size_t b = kHistogramCenter + 1; b < mass.size(); ++b) {
    const int64_t nearest = int64_t{1} << (b - kHistogramCenter - 1);
    if (nearest >= window) far += mass[b];
  }
  const double first = profile.Get("first", head).mean;
  return std::max(0.0, far / all - (std::isfinite(first) ? first : 0));
}

}  // namespace

std::vector<FarReader> FarReaders(const Profile& profile,
                                  std::span<const HeadRoles> roles,
                                  int64_t window) {
  std::vector<FarReader> readers;
  for (const HeadRoles& head : roles) {
    if (head.head.kind == AttentionKind::kCross) continue;
    const auto role =
        std::find_if(head.roles.begin(), head.roles.end(), [](const Role& one) {
          const RoleRule* rule = FindRule(one.name);
          return rule != nullptr && rule->reads_far;
        });
    if (role != head.roles.end()) {
      readers.push_back(
          {head.head, fmt::format("{} {:.2f}", role->name, role->score)});
      continue;
    }
    const int64_t index = profile.IndexOf(head.head);
    const double far =
        index < 0 ? 0 : FarMass(profile, static_cast<size_t>(index), window);
    if (far >= kFarMass) {
      readers.push_back({head.head, fmt::format("far {:.2f}", far)});
    }
  }
  return readers;
}

}  // namespace headwise
