"""Calls of the CUDA operators on PyTorch tensors, through bridge.cc."""
import ctypes as c

import torch

FAR = 2**63 - 1
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2,
         torch.float16: 3, torch.int32: 4, torch.uint8: 6}
NAMES = ["q", "k", "v", "out", "query_lengths", "key_lengths", "query_starts",
         "key_starts", "query_offsets", "gates", "replacement", "lse",
         "ungated", "entropy", "max", "argmax", "distance", "dout", "dq", "dk",
         "dv", "dgates", "received", "alibi_slopes", "relative_table",
         "varentropy", "sum_squares", "kept_max", "kept_argmax", "histogram",
         "feature_mass", "label_mass", "key_features", "query_labels",
         "key_labels", "excluded_keys", "query_weights", "sums",
         "summed_histogram", "summed_features", "summed_labels", "dentropy",
         "drelative_table", "sink_logits", "dsink_logits", "missing"]


class View(c.Structure):
    _fields_ = [("data", c.c_void_p), ("type", c.c_int32),
                ("rank", c.c_int32), ("shape", c.c_int64 * 4),
                ("stride", c.c_int64 * 4)]

    def __init__(self, tensor=None):
        super().__init__()
        if tensor is not None:
            self.data = tensor.data_ptr()
            self.type = TYPES[tensor.dtype]
            self.rank = tensor.dim()
            self.shape[:tensor.dim()] = tensor.shape
            self.stride[:tensor.dim()] = tensor.stride()


class Call(c.Structure):
    _fields_ = [(n, c.c_int64) for n in
                ("batch", "heads", "kv_heads", "query_len", "key_len",
                 "head_dim", "value_dim", "relative_reach")] + [
        ("type", c.c_int32), ("packed", c.c_int32), ("full", c.c_int32),
        ("soft_cap", c.c_float)] + [
        (n, c.c_int64) for n in ("before", "after", "query_offset", "sinks")
    ] + [("active_heads", c.POINTER(c.c_int32)), ("active_count", c.c_int64),
         ("views", View * len(NAMES))]


class Operators:
    """The built library."""

    def __init__(self, path):
        self._library = c.CDLL(str(path))
        for name in ("WhyNot", "Forward", "Backward", "Rows", "TopK", "Pairs",
                     "Received", "Window", "Gram"):
            getattr(self._library, "Bridge" + name).restype = c.c_char_p
        self._library.BridgePeakBytes.restype = c.c_int64
        self._library.BridgeStream.restype = c.c_void_p
        # PyTorch works in the operators' queue from here on: what it makes is
        # there when they read it, what they make when it reads that, and its
        # events time their kernels and nothing beside them.
        torch.cuda.synchronize()
        self._queue = torch.cuda.ExternalStream(self._library.BridgeStream())
        torch.cuda.set_stream(self._queue)

    def make(self, tensors, mask=(FAR, FAR, 0, 0), active=None, lengths=None,
             soft_cap=0.0):
        """A call; mask: before, after, offset, sinks. lengths: of packed
        sequences, (count, longest query, longest key)."""
        q, k = tensors["q"], tensors["k"]
        call = Call()
        call.batch, call.query_len, call.heads, call.head_dim = q.shape
        call.key_len, call.kv_heads = k.shape[1], k.shape[2]
        call.value_dim = tensors["v"].shape[3]
        call.soft_cap = soft_cap
        call.full = "varentropy" in tensors
        if "relative_table" in tensors:
            call.relative_reach = tensors["relative_table"].shape[1] // 2
        if lengths is not None:
            call.packed = 1
            call.batch, call.query_len, call.key_len = lengths
        call.type = TYPES[q.dtype]
        call.before, call.after, call.query_offset, call.sinks = mask
        if active is not None:
            call.active_heads = (c.c_int32 * len(active))(*active)
            call.active_count = len(active)
        for i, name in enumerate(NAMES):
            call.views[i] = View(tensors.get(name))
        call.keep = tensors
        return call

    def why_not(self, name, call, backward=False):
        return self._library.BridgeWhyNot(name.encode(), c.byref(call),
                                          int(backward)).decode()

    def takes(self, name, call, backward=False):
        """`name`, or the portable implementation where that refuses the call."""
        refuses = self.why_not(name, call, backward)
        return "cuda.sm80" if refuses else name

    def _run(self, function, name, call, *more):
        problem = function(name, c.byref(call), *more)
        if problem:
            raise RuntimeError(problem.decode())

    def forward(self, name, call):
        self._run(self._library.BridgeForward, name.encode(), call)

    def backward(self, name, call):
        self._run(self._library.BridgeBackward, name.encode(), call)

    def rows(self, name, call, rows, probabilities):
        """rows: (sequence, query) each; probabilities [rows, H, N]."""
        self._run(self._library.BridgeRows, name.encode(), call,
                  *_places(rows), c.byref(View(probabilities)))

    def top_k(self, name, call, rows, keys, probabilities):
        self._run(self._library.BridgeTopK, name.encode(), call,
                  *_places(rows), c.byref(View(keys)),
                  c.byref(View(probabilities)))

    def pairs(self, name, call, rows, keys, mass, is_argmax):
        """keys: one for each row; mass, is_argmax [H, rows]."""
        self._run(self._library.BridgePairs, name.encode(), call,
                  *_places(rows), (c.c_int32 * len(keys))(*keys),
                  c.byref(View(mass)), c.byref(View(is_argmax)))

    def received(self, name, call):
        self._run(self._library.BridgeReceived, name.encode(), call)

    def window(self, name, call, window, maximum, mean):
        """window: sequence, head, queries from and to, keys from and to."""
        self._run(self._library.BridgeWindow, name.encode(), call,
                  (c.c_int64 * 6)(*window), c.byref(View(maximum)),
                  c.byref(View(mean)))

    def gram(self, name, call, gram):
        """gram [2H, 2H]: the call's heads twice."""
        self._run(self._library.BridgeGram, name.encode(), call,
                  c.byref(View(gram)))

    def peak_bytes(self):
        """Device memory held at once since the last time this was asked."""
        return self._library.BridgePeakBytes()


def _places(rows):
    flat = [x for row in rows for x in row]
    return (c.c_int64 * len(flat))(*flat), c.c_int64(len(rows))
