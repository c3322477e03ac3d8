// Multi-head attention as a module. Door:
// include/headwise/multi_head_attention.h.
