#include "headwise/heads/roles/roles.h"

#include <gtest/gtest.h>

#include "headwise/head_ref.h"
#include "headwise/observation.h"

namespace headwise::far_readers_test {
namespace {

HeadRoles With(int64_t head, const char* role) {
  HeadRoles roles;
  roles.head = {AttentionKind::kSelf, 0, head};
  if (role != nullptr) {
    roles.roles.push_back({});
    roles.roles.back().name = role;
    roles.roles.back().score = 0.9;
  }
  return roles;
}

TEST(FarReadersTest, AreNamedByTheirRoleOrByHowFarTheyLook) {
  Profile profile({{AttentionKind::kSelf, 0, 0},
                   {AttentionKind::kSelf, 0, 1},
                   {AttentionKind::kSelf, 0, 2},
                   {AttentionKind::kSelf, 0, 3}});
  const std::vector<HeadRoles> roles = {With(0, "previous-token"),
                                        With(1, "induction"), With(2, nullptr),
                                        With(3, "first-token")};
  std::vector<FarReader> readers = FarReaders(profile, roles, 64);
  ASSERT_EQ(readers.size(), 1u);
  EXPECT_EQ(readers[0].head.head, 1);
  EXPECT_EQ(readers[0].why, "induction 0.90");

  // With text: heads 2 and 3 have half of their mass at distances 64 … 127,
  // that of head 3 on the first token.
  profile.counts.tokens = 1000;
  profile.histograms.assign(4, std::vector<double>(kHistogramBuckets, 0));
  for (std::vector<double>& mass : profile.histograms) {
    mass[kHistogramCenter] = 5;
  }
  for (const size_t head : {2, 3}) {
    profile.histograms[head][HistogramBucket(64)] = 5;
  }
  std::vector<Tally>& first = profile.Tallies("first");
  for (size_t head = 0; head < 4; ++head) {
    first[head].Add(head == 3 ? 0.5 : 0, 1);
  }
  readers = FarReaders(profile, roles, 64);
  ASSERT_EQ(readers.size(), 2u);
  EXPECT_EQ(readers[1].head.head, 2);
  EXPECT_EQ(readers[1].why, "far 0.50");
  EXPECT_EQ(FarReaders(profile, roles, 65).size(), 1u);
}

}  // namespace
}  // namespace headwise::far_readers_test
