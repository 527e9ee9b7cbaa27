/* A hostile bundle is refused, or computed without a step outside of it: what a fuzzer calls again and again. */
#include "idiolect.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    idiolect_model model;
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees the first byte beyond */
    if (!exact) return 0;
    memcpy(exact, data, size);
    /* Some that are valid ask for more time or memory than a fuzzer has. */
    if (!idiolect_open(&model, exact, size) && model.products < 2e5 && model.workspace < 1 << 18) {
        size_t count = (size_t)model.height * model.width * model.channels;
        float *image = calloc(count, sizeof(float)), *logits = malloc(model.classes * sizeof(float));
        float *workspace = malloc(model.workspace * sizeof(float));
        if (image && logits && workspace) {
            for (size_t k = 0; k < count; k++) image[k] = (float)(k % 7) / 7;
            idiolect_predict(&model, image, logits, workspace);
            if (idiolect_class(&model, logits) >= model.classes) abort();
        }
        free(workspace), free(logits), free(image);
    }
    free(exact);
    return 0;
}
