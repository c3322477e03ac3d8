// Entry points of embeddings and their list of implementations.
// Door: embedding.h.
#include "headwise/ops/embedding/embedding.h"

#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/embedding/implementation.h"
#include "headwise/ops/ids.h"

namespace headwise {
namespace {

constexpr const char* kName = "embedding";

void CheckTable(const char* name, const ConstTensorView& table) {
  if (table.rank != 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {kName, std::string(name) + " of rank 2", ToString(table), ""});
  }
  CheckView(kName, name, table, table.type, ShapeOf(table), table.device);
}

// What lies on a device is not read here: its implementations take care.
void CheckWithin(const ConstTensorView& ids, int64_t rows) {
  for (int64_t n = 0; ids.device.is_cpu() && n < ids.shape[0]; ++n) {
    const int64_t id = IdAt(ids, n);
    if (id >= 0 && id < rows) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {kName, "ids in [0, " + std::to_string(rows) + ")",
                 std::to_string(id) + " at position " + std::to_string(n),
                 "does the tokenizer belong to this model?"});
  }
}

}  // namespace

ImplementationList<EmbeddingCall> EmbeddingImplementations() {
  static const Implementation<EmbeddingCall> kList[] = {
      kEmbeddingCuda, kEmbeddingCpuF32, kEmbeddingReference};
  return {kName, kList};
}

void EmbeddingForward(Context& context, const EmbeddingProblem& problem,
                      const EmbeddingArgs& args) {
  const ConstTensorView& table = args.table;
  CheckTable("table", table);
  if (table.type != DType::kF32 && table.type != DType::kBF16 &&
      table.type != DType::kF16) {
    throw Error(ErrorCode::kInvalidArgument,
                {kName, "a table of f32, bf16 or f16", Name(table.type), ""});
  }
  const int64_t count = args.ids.shape[0];
  CheckIds(kName, "ids", args.ids, count, table.device);
  CheckView(kName, "out", args.out, args.out.type, {count, table.shape[1]},
            table.device);
  CheckWithin(args.ids, table.shape[0]);
  Dispatch(context, EmbeddingImplementations(), {problem, args});
}

void EmbeddingBackward(Context& context, const ConstTensorView& ids,
                       const EmbeddingGrads& grads) {
  const TensorView& dtable = grads.dtable;
  CheckTable("dtable", dtable);
  CheckView(kName, "dtable", dtable, DType::kF32, ShapeOf(dtable),
            dtable.device);
  const int64_t count = ids.shape[0];
  CheckIds(kName, "ids", ids, count, dtable.device);
  CheckView(kName, "dout", grads.dout, grads.dout.type,
            {count, dtable.shape[1]}, dtable.device);
  CheckWithin(ids, dtable.shape[0]);
  const EmbeddingArgs args = {.ids = ids};
  Dispatch(context, EmbeddingImplementations(),
           {EmbeddingProblem{}, args, &grads});
}

}  // namespace headwise
