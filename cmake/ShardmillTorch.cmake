# SPDX-License-Identifier: Apache-2.0
set(SHARDMILL_TORCH_SUMMARY "off")
set(SHARDMILL_CUDA_SUMMARY "off")
