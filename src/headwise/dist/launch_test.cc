#include "headwise/dist/launch.h"

#include <gtest/gtest.h>

#include <map>

namespace headwise::dist {
namespace {

Launch With(std::map<std::string, std::string> variables) {
  return LaunchBy([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, IsOneProcessWithoutALauncher) {
  EXPECT_EQ(With({}), Launch());
  EXPECT_EQ(With({{"WORLD_SIZE", "4"}, {"RANK", "1"}}), Launch());
}

TEST(Launch, KnowsItsLaunchers) {
  EXPECT_EQ(With({{"OMPI_COMM_WORLD_RANK", "2"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            (Launch{2, 4, 2, "mpirun"}));
  EXPECT_EQ(With({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}),
            (Launch{0, 3, 3, "mpirun"}));
  EXPECT_EQ(With({{"SLURM_PROCID", "7"}, {"SLURM_STEP_NUM_TASKS", "8"}}),
            (Launch{7, 8, 8, "srun"}));
}

TEST(Launch, TakesABatchScriptForOneProcess) {
  EXPECT_EQ(With({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), Launch());
}

TEST(Launch, PassesOverWhatMakesNoSense) {
  for (const char* rank : {"", "x", "4", "-1", "1x"}) {
    EXPECT_EQ(
        With({{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
        Launch())
        << rank;
  }
}

TEST(WorkGroup, IsOneProcessWithoutALauncher) {
  WorkGroup group{Launch()};
  EXPECT_EQ(group.size(), 1);
  EXPECT_TRUE(group.is_first());
  const RunField field = {"model", "of hash 1"};
  group.RequireSame({&field, 1});
  group.Barrier();
  group.Leave();
}

}  // namespace
}  // namespace headwise::dist
