// Tiny runs in a folder of their own. Test only.
#pragma once

#include <gtest/gtest.h>

#include <stop_token>
#include <string>

#include "headwise/base/atomic_file.h"
#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/train/run.h"

namespace headwise {

// A folder with a text, pairs and a vocabulary of bytes.
class TrainingRun : public ScratchFolderTest {
 protected:
  void SetUp() override {
    std::string text, pairs;
    Rng rng(3);
    const char* const words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat. "};
    for (int i = 0; i < 600; ++i) text += words[rng.Below(6)];
    for (int i = 0; i < 40; ++i) {
      const char* word = words[rng.Below(6)];
      pairs += std::string(word) + "\t" + word + word + "\n";
    }
    WriteFileAtomically(folder_ / "text.txt", text);
    WriteFileAtomically(folder_ / "pairs.tsv", pairs);
    TextSource none({});
    WriteFileAtomically(
        folder_ / "tokenizer.json",
        TrainByteLevelBpe(
            none, {.size = 260, .special_tokens = {"<mask>", "<eos>", "<p>"}}));
  }

  TrainConfig Config(const std::string& out) const {
    TrainConfig config;
    config.out = folder_ / out;
    config.tokenizer = folder_ / "tokenizer.json";
    config.data = {folder_ / "text.txt"};
    config.hold_out = 4;
    config.model = {
        {"model_type", "llama"},         {"hidden_size", 16},
        {"intermediate_size", 24},       {"num_hidden_layers", 2},
        {"num_attention_heads", 2},      {"num_key_value_heads", 1},
        {"max_position_embeddings", 64}, {"tie_word_embeddings", true}};
    config.steps = 12;
    config.batch = 4;
    config.micro_batch = 2;
    config.sequence = 16;
    config.rate = 0.02;
    config.warmup = 2;
    config.evaluate_every = 6;
    config.evaluate_sequences = 4;
    config.save_every = 5;
    config.dropout = 0.1;
    config.repeat_share = 0.5;
    return config;
  }

  static TrainingRecord Train(const TrainConfig& config, int threads = 2,
                              RunOptions options = {}) {
    Context context({threads, ""});
    return RunTraining(context, config, options).record;
  }
  // Stops after `steps` steps of this piece.
  static TrainingRecord TrainPiece(const TrainConfig& config, int64_t steps) {
    std::stop_source stop;
    RunOptions options;
    options.resume = true;
    options.stop = stop.get_token();
    options.on_step = [&](const StepView& view) {
      if (view.report.step + 1 == view.steps_before + steps) {
        stop.request_stop();
      }
    };
    return Train(config, 2, options);
  }
  static std::string ErrorOf(const TrainConfig& config,
                             RunOptions options = {}) {
    try {
      Train(config, 1, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

}  // namespace headwise
