"""Models with few values: codebooks, quantizers, the proximal maps that learn them, and bits packed into bytes.

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL: quantized personalization with applications to federated learning.
2021.
"""
