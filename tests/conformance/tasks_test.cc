// Heads of other tasks behind the goldens' encoders, against transformers
// (tools/make_goldens.py --tasks).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "goldens.h"
#include "headwise/base/json.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/task_head.h"
#include "headwise/runtime/classes.h"

namespace headwise::tasks_test {
namespace {

// A golden's weights with those of a head.
class WithHead : public WeightSource {
 public:
  WithHead(const WeightSource& base, const Safetensors& head)
      : base_(base), head_(head) {}

  std::string Describe() const override { return head_.where(); }
  std::vector<std::string> Names() const override { return base_.Names(); }
  ConstTensorView Find(const std::string& name) const override {
    const ConstTensorView own = head_.Find(name);
    return own ? own : base_.Find(name);
  }

 private:
  const WeightSource& base_;
  const Safetensors& head_;
};

// Both inputs, and what transformers makes of them.
struct Texts {
  Texts(const Safetensors& inputs, const Safetensors& outputs) {
    for (const std::string index : {"0", "1"}) {
      const ConstTensorView row = inputs.At(index + ".input_ids");
      ids.insert(ids.end(), row.As<int32_t>(),
                 row.As<int32_t>() + row.shape[0]);
      lengths.push_back(row.shape[0]);
      const ConstTensorView given = outputs.At(index + ".logits");
      logits.insert(logits.end(), given.As<float>(),
                    given.As<float>() + given.size());
    }
  }

  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  std::vector<float> logits;
};

std::vector<std::string> Tasks() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(kGoldens / "tasks")) {
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

class Task : public testing::TestWithParam<std::string> {};

TEST_P(Task, EqualsTransformers) {
  const std::string name = GetParam(), golden = name.substr(0, name.find('.'));
  const Safetensors extra =
      Safetensors::Open(kGoldens / "tasks" / (name + ".safetensors"));
  const Texts texts(
      Safetensors::Open(kGoldens / golden / "expected.safetensors"), extra);
  Json json = ReadJson(kGoldens / golden / "config.json");
  json["architectures"] = {name.substr(golden.size() + 1)};
  json["classifier_pooling"] = extra.metadata().at("classifier_pooling");
  for (const Place& place : Places()) {
    if (place.type != DType::kF32) continue;
    const Checkpoint checkpoint(kGoldens / golden, {}, place.type);
    const TaskHead head = ReadTaskHead(json, checkpoint.config(),
                                       WithHead(checkpoint.weights(), extra));
    EXPECT_EQ(head.labels[0], "LABEL_0");
    Context context = place.MakeContext();
    const Tensor found = ClassLogits(context, checkpoint.model(), head,
                                     texts.ids, texts.lengths);
    ASSERT_EQ(found.size(), std::ssize(texts.logits)) << place.name;
    for (int64_t i = 0; i < found.size(); ++i) {
      const float wanted = texts.logits[static_cast<size_t>(i)];
      EXPECT_NEAR(found.As<float>()[i], wanted,
                  2e-4 * std::max(1.0f, std::abs(wanted)))
          << place.name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, Task, testing::ValuesIn(Tasks()),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(TaskHead, IsRefusedByTheNameOfItsClass) {
  const Checkpoint checkpoint(kGoldens / "bert");
  Json json = ReadJson(kGoldens / "bert" / "config.json");
  for (const char* name : {"BertForMultipleChoice", "GPT2LMHeadModel"}) {
    json["architectures"] = {name};
    try {
      ReadTaskHead(json, checkpoint.config(), checkpoint.weights());
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace headwise::tasks_test
