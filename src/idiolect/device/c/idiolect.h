/* Computes a model from its bundle, in place: weights stay packed, and nothing is allocated.
 *
 *     idiolect_model model;
 *     const char *wrong = idiolect_open(&model, bytes, count);   // NULL, or what is wrong with the bundle
 *     float *workspace = malloc(model.workspace * sizeof(float));   // or an array, if you know the model
 *     idiolect_predict(&model, image, logits, workspace);        // height x width x channels -> classes
 *
 * The bundle must stay where it is, in read-only memory if you like. `idiolect_open` reads every byte that is used later
 * and believes none of them; it does not look at the header, its digest and its signature, which are for whoever
 * installs the bundle. Models can be used from several threads at once, each with a workspace of its own.
 */
#ifndef IDIOLECT_H
#define IDIOLECT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t height, width, channels; /* of an image, which lies in this order */
    uint32_t classes;                 /* how many logits there are */
    uint32_t divisor;                 /* of pixels that are bytes, for inputs between 0 and 1 */
    size_t workspace;                 /* how many floats `idiolect_predict` needs */
    double products;                  /* multiplications for one image */

    /* The rest is for the functions below. */
    const unsigned char *program, *numbers, *codes;
    size_t program_bytes, number_bytes, code_bytes, first_operation;
    uint32_t operations;
    size_t values, kept, scratch;
} idiolect_model;

/* Read and check a bundle. Returns NULL, or a sentence that says what is wrong. */
const char *idiolect_open(idiolect_model *model, const void *bundle, size_t bytes);

/* The logits of one image of floats between 0 and 1. */
void idiolect_predict(const idiolect_model *model, const float *image, float *logits, float *workspace);

/* Pixels as the model wants them. */
void idiolect_scale(const idiolect_model *model, const unsigned char *pixels, float *image);

/* The class with the largest logit, the first one if there are several. */
uint32_t idiolect_class(const idiolect_model *model, const float *logits);

#ifdef __cplusplus
}
#endif

#endif
