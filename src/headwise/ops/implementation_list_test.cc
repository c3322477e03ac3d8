#include "headwise/ops/implementation_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "headwise/error.h"

namespace headwise::implementation_list_test {
namespace {

using testing::HasSubstr;

struct Call {
  int size = 0;
  std::string* ran = nullptr;
};

constexpr Implementation<Call> kList[] = {
    {"small",
     [](const Call& call) -> Reason {
       return call.size < 10 ? "" : "takes fewer than 10";
     },
     [](Context&, const Call& call) { *call.ran = "small"; }},
    {"odd",
     [](const Call& call) -> Reason {
       return call.size % 2 == 1 ? "" : "takes odd sizes";
     },
     [](Context&, const Call& call) { *call.ran = "odd"; }},
};
constexpr ImplementationList<Call> kOperator = {"count", kList};

std::string Ran(int size, const std::string& wanted = "") {
  Context context({1, wanted.empty() ? "" : "count:" + wanted});
  std::string ran;
  try {
    Dispatch(context, kOperator, Call{size, &ran});
  } catch (const Error& error) {
    return error.what();
  }
  return ran;
}

TEST(ImplementationList, TheFirstThatTakesACallRunsIt) {
  EXPECT_EQ(Ran(3), "small");
  EXPECT_EQ(Ran(11), "odd");
}

TEST(ImplementationList, ANameMeansThatOneAndNoOther) {
  EXPECT_EQ(Ran(3, "odd"), "odd");
  const std::string refusal = Ran(11, "small");
  EXPECT_THAT(refusal, HasSubstr("takes fewer than 10"));
  EXPECT_THAT(refusal, HasSubstr("asked for by name"));
  EXPECT_THAT(Ran(3, "smal"), HasSubstr("one of small, odd"));
}

TEST(ImplementationList, WhereNoneTakesItAllSayWhy) {
  EXPECT_THAT(Ran(12), HasSubstr("small: takes fewer than 10; odd: takes odd"));
}

}  // namespace
}  // namespace headwise::implementation_list_test
