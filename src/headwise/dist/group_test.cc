#include "headwise/dist/group.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "headwise/dist/pack.h"
#include "headwise/dist/thread_group.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

class Groups : public testing::TestWithParam<int> {};

TEST_P(Groups, GiveEveryRankWhatTheFirstHas) {
  RunRanks(GetParam(), [](Group& group) {
    std::string text = group.is_first() ? "of rank 0" : "";
    group.Broadcast(text);
    EXPECT_EQ(text, "of rank 0");
    // More than one bucket, and not a whole number of them.
    Tensor values(DType::kF32, {(5 << 20) + 3});
    float* at = values.As<float>();
    if (group.is_first()) std::iota(at, at + values.size(), 1.0f);
    group.Broadcast(values.view());
    EXPECT_EQ(at[0], 1.0f);
    EXPECT_EQ(at[values.size() - 1], static_cast<float>(values.size()));
  });
}

TEST_P(Groups, GiveEveryRankWhatAnyHas) {
  RunRanks(GetParam(), [](Group& group) {
    for (int from = 0; from < group.size(); ++from) {
      Tensor values(DType::kF32, {5});
      float* at = values.As<float>();
      if (group.rank() == from) std::iota(at, at + 5, 1.0f + from);
      group.Broadcast(values.view(), from);
      EXPECT_EQ(at[4], 5.0f + from);
    }
  });
}

TEST_P(Groups, SendLargeViewsToOneRank) {
  RunRanks(GetParam(), [](Group& group) {
    Tensor values(DType::kF32, {(2 << 20) + 3});
    float* last = values.As<float>() + values.size() - 1;
    *last = static_cast<float>(group.rank());
    if (!group.is_first()) group.Send(0, std::as_const(values).view());
    for (int from = 1; group.is_first() && from < group.size(); ++from) {
      group.Receive(from, values.view());
      EXPECT_EQ(*last, static_cast<float>(from));
    }
  });
}

TEST_P(Groups, GatherInTheOrderOfRanks) {
  RunRanks(GetParam(), [](Group& group) {
    const std::string own(static_cast<size_t>(group.rank()), 'x');
    const auto first = group.Gather(own);
    EXPECT_EQ(first.size(), group.is_first() ? group.size() : 0u);
    const auto all = group.AllGather(own);
    ASSERT_EQ(static_cast<int>(all.size()), group.size());
    for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r].size(), r);
  });
}

TEST_P(Groups, AddUp) {
  const int size = GetParam();
  RunRanks(size, [&](Group& group) {
    std::vector<double> values = {1.0, 0.5 * group.rank()};
    group.AllReduce(std::span<double>(values));
    EXPECT_EQ(values[0], size);
    EXPECT_EQ(values[1], 0.25 * size * (size - 1));
    int64_t count[] = {int64_t{1} << 60 >> group.rank()};
    group.AllReduce(std::span<int64_t>(count));
    EXPECT_EQ(count[0], (int64_t{1} << 61) - (int64_t{1} << 61 >> size));
    group.Barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Groups, testing::Values(1, 2, 3, 4, 7, 8));

TEST(Groups, OfOneProcessHasNobodyToWriteTo) {
  const auto group = JoinGroup({});
  EXPECT_TRUE(group->is_single());
  EXPECT_THROW(group->Post(1, Channel::kWork, ""), Error);
  EXPECT_FALSE(group->Poll(Channel::kWork, 0));
}

TEST(Groups, RefuseMessagesThatEndTooEarly) {
  Packer packer;
  packer.Put(int64_t{7});
  const std::string bytes = packer.Take();
  Unpacker unpacker(bytes);
  EXPECT_EQ(unpacker.Get<int64_t>(), 7);
  EXPECT_THROW(unpacker.Get<char>(), Error);
  Unpacker huge(bytes);  // "7 doubles", and then none
  EXPECT_THROW(huge.GetVector<double>(), Error);
}

}  // namespace
}  // namespace headwise::dist
