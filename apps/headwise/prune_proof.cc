// Door: prune_proof.h.
#include "prune_proof.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "console.h"
#include "headwise/base/byte_size.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/terminal.h"
#include "interval_text.h"

namespace headwise {
namespace {

int64_t WeightBytes(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") {
      bytes += static_cast<int64_t>(entry.file_size());
    }
  }
  return bytes;
}

bool AnyFaster(const Proof& proof) {
  return std::any_of(proof.timings.begin(), proof.timings.end(),
                     [](const PairTiming& timing) {
                       return timing.after_ms < 0.98 * timing.before_ms;
                     });
}

}  // namespace

void PrintProof(const PruneOptions& options, const Proof& proof, size_t removed,
                size_t heads) {
  fmt::print("{} of {} left {}; {} stay.\n\n", removed,
             Counted(static_cast<int64_t>(heads), "head"),
             Visible(options.run.model), heads - removed);
  StudyTable table;
  table.columns = {"", "before", "after", "ratio"};
  table.rows.push_back({fmt::format("{} loss", Name(proof.loss.loss_kind)),
                        ToText(proof.loss.loss), ToText(proof.loss.closed),
                        ""});
  for (const PairTiming& timing : proof.timings) {
    table.rows.push_back(
        {timing.what + ", tokens/s",
         fmt::format("{:.0f}", 1e3 * timing.tokens / timing.before_ms),
         fmt::format("{:.0f}", 1e3 * timing.tokens / timing.after_ms),
         fmt::format("{:.2f}×", timing.before_ms / timing.after_ms)});
  }
  const auto bytes = [&](const char* what, const int64_t(&both)[2]) {
    if (both[0] == 0) return;
    table.rows.push_back(
        {what, ByteSize(static_cast<uint64_t>(both[0])),
         ByteSize(static_cast<uint64_t>(both[1])),
         fmt::format("{:.2f}", static_cast<double>(both[1]) /
                                   static_cast<double>(both[0]))});
  };
  bytes("weights", proof.weights);
  bytes("cache a token", proof.cache);
  fmt::print("{}", DrawTable(table, StdoutConsole()));
  fmt::print("\nLoss on {} that chose nothing, {} tokens; change {}.\n",
             Counted(proof.loss.sequences, "sequence"), proof.loss.tokens,
             ToText(proof.loss.change, true));
  fmt::print("{}", ToText(proof.repair));
  if (!proof.search.empty()) fmt::print("{}\n", proof.search);
  if (!options.no_timing && !AnyFaster(proof))
    fmt::print("Nothing became faster by 2 %.\n");
  if (!proof.note.empty()) fmt::print("{}\n", proof.note);
  fmt::print("Written to {}.\n", Visible(options.out));
}

Json ToJson(const Proof& proof) {
  Json timings = Json::array();
  for (const PairTiming& timing : proof.timings) {
    timings.push_back({{"what", timing.what},
                       {"tokens", timing.tokens},
                       {"before_ms", timing.before_ms},
                       {"after_ms", timing.after_ms}});
  }
  Json json = {{"loss_kind", Name(proof.loss.loss_kind)},
               {"sequences", proof.loss.sequences},
               {"tokens", proof.loss.tokens},
               {"loss_before", ToJson(proof.loss.loss)},
               {"loss_after", ToJson(proof.loss.closed)},
               {"change", ToJson(proof.loss.change)},
               {"timings", timings},
               {"faster", AnyFaster(proof)},
               {"note", proof.note},
               {"weight_bytes", {proof.weights[0], proof.weights[1]}},
               {"cache_bytes_a_token", {proof.cache[0], proof.cache[1]}}};
  json.update(ToJson(proof.repair));
  if (!proof.search.empty()) json["search"] = proof.search;
  return json;
}

Proof Prove(const PruneOptions& options, const PruneMaterial& material,
            const JudgedText& judge, Context& context) {
  const Checkpoint checkpoint(options.out, {}, material.model().type());
  const Model& smaller = checkpoint.model();
  Proof proof;
  proof.loss = judge.Of(smaller);
  if (!options.no_timing) {
    proof.timings = TimeBoth(context, material.model(), smaller, proof.note);
  }
  proof.weights[0] = WeightBytes(options.run.model);
  proof.weights[1] = WeightBytes(options.out);
  proof.cache[0] = CacheBytesOf(material.model());
  proof.cache[1] = CacheBytesOf(smaller);
  return proof;
}

}  // namespace headwise
