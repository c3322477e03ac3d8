// Roles in training: scores are the metrics that the rules name.
#include "headwise/heads/roles/role_life.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "headwise/base/atomic_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/heads/importance/head_life.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/model/checkpoint.h"

namespace headwise::role_life_test {
namespace {

const std::filesystem::path kAssets = HEADWISE_ASSETS;

using RoleLifeFile = ScratchFolderTest;

TEST(RoleLife, ScoresEveryRoleOfThePlantedHeads) {
  const auto model = OpenModel(kAssets / "planted");
  const auto tokenizer = Tokenizer::Load(kAssets / "planted");
  const WindowCutter cutter(*tokenizer, model->config(), {.context = 128});
  Context context({1, ""});
  const LifeObserver observer(
      context, *tokenizer, model->config(),
      ReadWindows({(kAssets / "text").string()}, cutter, 512));
  Profile profile;
  observer.Observe(*model, 7, &profile);
  const RoleMoment moment = RolesAt(profile, 7);
  EXPECT_EQ(moment.step, 7);
  ASSERT_EQ(moment.heads.size(), profile.heads.size());
  for (const char* role :
       {"previous-token", "induction", "duplicate", "self", "offset", "local",
        "first-token", "delimiter", "semantic", "broad"}) {
    EXPECT_TRUE(moment.scores.contains(role)) << role;
  }
  for (const char* absent : {"coreference", "translation", "monotone"}) {
    EXPECT_FALSE(moment.scores.contains(absent)) << absent;
  }
  const std::vector<HeadRoles> given = AssignRoles(profile);
  for (size_t h = 0; h < given.size(); ++h) {
    EXPECT_EQ(moment.scores.at("previous-token")[h],
              profile.Get("previous", h).mean);
    ASSERT_EQ(moment.roles[h].size(), given[h].roles.size());
    for (size_t i = 0; i < given[h].roles.size(); ++i) {
      EXPECT_EQ(moment.roles[h][i], given[h].roles[i].name);
    }
  }
  EXPECT_GE(moment.CountOf("previous-token"), 1);
  EXPECT_EQ(moment.CountOf("nothing"), 0);
}

TEST_F(RoleLifeFile, IsReadUpToAStep) {
  const auto file = folder_ / "roles.jsonl";
  EXPECT_TRUE(ReadRoleLife(file, 100).empty());
  std::vector<RoleMoment> life;
  for (const int64_t step : {0, 10, 20}) {
    life.push_back({step,
                    {"0.0", "0.1"},
                    {{"self", {0.5, NAN}}},
                    {{"self", "local"}, {}}});
  }
  WriteRoleLife(file, life);
  const std::vector<RoleMoment> read = ReadRoleLife(file, 10);
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[1].step, 10);
  EXPECT_EQ(read[1].roles, life[1].roles);
  EXPECT_EQ(read[1].scores.at("self")[0], 0.5);
  EXPECT_TRUE(std::isnan(read[1].scores.at("self")[1]));
  WriteFileAtomically(file, "{\"step\": 1}\n");
  EXPECT_THROW(ReadRoleLife(file, 10), Error);
}

TEST_F(RoleLifeFile, HasOneScoreForEachHeadOfEveryStep) {
  const auto file = folder_ / "roles.jsonl";
  const RoleMoment good = {0, {"0.0", "0.1"}, {{"self", {.5, .1}}}, {{}, {}}};
  RoleMoment fewer = good;
  fewer.scores["self"].pop_back();
  RoleMoment unnamed = good;
  unnamed.roles.pop_back();
  const RoleMoment others = {1, {"0.0"}, {{"self", {.5}}}, {{}}};
  for (const auto& life : {std::vector{fewer}, {unnamed}, {good, others}}) {
    WriteRoleLife(file, life);
    EXPECT_THROW(ReadRoleLife(file, 10), Error);
  }
}

}  // namespace
}  // namespace headwise::role_life_test
