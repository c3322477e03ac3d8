// Copy's entry points and its list of implementations. Door: copy.h.
#include "headwise/ops/copy/copy.h"

#include <string>

#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

void CheckPlace(const Context& context, const char* name,
                const ConstTensorView& view) {
  if (!view && view.size() > 0) {
    Refuse("copy", std::string(name) + " " + ToString(view), "none");
  }
  if (view.device.is_cpu() || view.device == context.device()) return;
  Refuse("copy", std::string(name) + " on cpu or " + ToString(context.device()),
         ToString(view));
}

bool IsAnyFloat(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kBF16 ||
         type == DType::kF16;
}

void CheckTypes(const ConstTensorView& from, const ConstTensorView& to) {
  if (!EncodingOf(from.type).plain()) RequireBlocks(from);
  if (from.type == to.type || IsAnyFloat(to.type)) return;
  const bool integers = !IsAnyFloat(from.type) && IsPlain(from.type) &&
                        IsPlain(to.type) && to.type != DType::kBool;
  if (integers) return;
  Refuse("copy", "a type that " + std::string(Name(from.type)) + " becomes",
         Name(to.type));
}

// Blocks of one type are moved as their bytes.
bool MovesBlocks(const ConstTensorView& from, const ConstTensorView& to) {
  return from.type == to.type && !EncodingOf(to.type).plain();
}

// The sizes of `view` from this axis on.
Shape Inner(const ConstTensorView& view, int axis) {
  return std::span(view.shape).subspan(axis, view.rank - axis);
}

// `from` and `to` agree but for their first `axes` axes.
void CheckRows(const Context& context, const CopyCall& call, int axes,
               int64_t count) {
  CheckPlace(context, "from", call.from);
  CheckPlace(context, "to", call.to);
  CheckTypes(call.from, call.to);
  if (call.from.rank < axes || call.to.rank < axes ||
      Inner(call.from, axes) != Inner(call.to, axes)) {
    Refuse("copy", "rows of one shape",
           ToString(call.from) + " and " + ToString(call.to));
  }
  if (call.from.device != call.to.device) {
    Refuse("copy", "to on " + ToString(call.from.device), ToString(call.to));
  }
  CheckView("copy", call.kind == CopyKind::kAppend ? "held" : "rows",
            call.index, DType::kI32, {count}, call.to.device);
}

// What can be read here is checked.
void CheckIndex(const ConstTensorView& index, int64_t end, const char* what) {
  if (!index.device.is_cpu()) return;
  for (int64_t i = 0; i < index.shape[0]; ++i) {
    const int64_t one = index.Raw<int32_t>()[i];
    if (one >= 0 && one < end) continue;
    Refuse("copy", std::string(what) + " in [0, " + std::to_string(end) + ")",
           std::to_string(one) + " at " + std::to_string(i));
  }
}

CopyCall CheckedAppend(Context& context, const ConstTensorView& from,
                       const ConstTensorView& held, const TensorView& to) {
  const CopyCall call = {
      .kind = CopyKind::kAppend, .from = from, .index = held, .to = to};
  CheckRows(context, call, 2, to.shape[0]);
  if (!EncodingOf(from.type).plain()) {
    Refuse("copy", "rows of a plain type for a cache", ToString(from));
  }
  if (from.shape[0] != to.shape[0]) {
    Refuse("copy", "from of " + std::to_string(to.shape[0]) + " sequences",
           ToString(from));
  }
  CheckIndex(held, to.shape[1] - from.shape[1] + 1, "held");
  return call;
}

void Run(Context& context, const CopyCall& call) {
  if (call.to.size() == 0 || (call.from && call.from.size() == 0)) return;
  Dispatch(context, CopyImplementations(), call);
}

}  // namespace

ImplementationList<CopyCall> CopyImplementations() {
  static const Implementation<CopyCall> kList[] = {
      kCopyCuda,      kCopyCpuMove, kCopyCpuCast,
      kCopyCpuBlocks, kCopyDevice,  kCopyReference};
  return {"copy", kList};
}

void Copy(Context& context, const ConstTensorView& from, const TensorView& to) {
  CheckPlace(context, "from", from);
  CheckPlace(context, "to", to);
  CheckTypes(from, to);
  if (!SameShape(from, to)) {
    Refuse("copy", "to " + ToString(ShapeOf(from)), ToString(to));
  }
  if (MovesBlocks(from, to)) return Copy(context, AsBytes(from), AsBytes(to));
  Run(context, {.kind = CopyKind::kCopy, .from = from, .to = to});
}

void Fill(Context& context, double value, const TensorView& to) {
  CheckPlace(context, "to", to);
  if (!EncodingOf(to.type).plain()) {
    if (value != 0) Refuse("copy", "0 for blocks", std::to_string(value));
    return Fill(context, 0, AsBytes(to));
  }
  Run(context, {.kind = CopyKind::kFill, .to = to, .value = value});
}

void GatherRows(Context& context, const ConstTensorView& from,
                const ConstTensorView& rows, const TensorView& to) {
  if (MovesBlocks(from, to)) {
    return GatherRows(context, AsBytes(from), rows, AsBytes(to));
  }
  const CopyCall call = {
      .kind = CopyKind::kGather, .from = from, .index = rows, .to = to};
  CheckRows(context, call, 1, to.shape[0]);
  CheckIndex(rows, from.shape[0], "rows");
  Run(context, call);
}

void ScatterRows(Context& context, const ConstTensorView& from,
                 const ConstTensorView& rows, const TensorView& to) {
  if (MovesBlocks(from, to)) {
    return ScatterRows(context, AsBytes(from), rows, AsBytes(to));
  }
  const CopyCall call = {
      .kind = CopyKind::kScatter, .from = from, .index = rows, .to = to};
  CheckRows(context, call, 1, from.shape[0]);
  CheckIndex(rows, to.shape[0], "rows");
  Run(context, call);
}

void AppendRows(Context& context, const ConstTensorView& from,
                const ConstTensorView& held, const TensorView& to) {
  Run(context, CheckedAppend(context, from, held, to));
}

void AppendRows(Context& context, const Appended& one, const Appended& other,
                const ConstTensorView& held) {
  CopyCall call = CheckedAppend(context, one.from, held, one.to);
  const CopyCall next = CheckedAppend(context, other.from, held, other.to);
  const DType type = one.to.type;
  const bool alike = one.from.type == type && other.from.type == type &&
                     other.to.type == type && one.from.size() > 0 &&
                     other.from.size() > 0;
  if (!one.to.device.is_cuda() || !alike) {
    Run(context, call);
    return Run(context, next);
  }
  call.from_beside = other.from;
  call.to_beside = other.to;
  Run(context, call);
}

void CheckAppends(Context& context, const Appended& one, const Appended& other,
                  const ConstTensorView& held) {
  CheckedAppend(context, one.from, held, one.to);
  CheckedAppend(context, other.from, held, other.to);
}

Temp CopyOf(Context& context, const ConstTensorView& from) {
  Temp copy(context, from.type, ShapeOf(from));
  Copy(context, from, copy.view());
  return copy;
}

Tensor ToHost(Context& context, const ConstTensorView& from) {
  Tensor host(from.type, ShapeOf(from));
  Copy(context, from, host.view());
  if (!from.device.is_cpu()) context.Synchronize();
  return host;
}

Tensor ToDevice(Context& context, const ConstTensorView& from) {
  Tensor tensor = Tensor::Undefined(context, from.type, ShapeOf(from));
  Copy(context, from, tensor.view());
  return tensor;
}

ConstTensorView OnDevice(Context& context, const ConstTensorView& from,
                         Temp& copy) {
  if (!from || from.device == context.device()) return from;
  copy = CopyOf(context, from);
  return copy.view();
}

ConstTensorView OnHost(Context& context, const ConstTensorView& from,
                       Tensor& copy) {
  if (!from || from.device.is_cpu()) return from;
  copy = ToHost(context, from);
  return copy.view();
}

}  // namespace headwise
