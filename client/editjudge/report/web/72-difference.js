// Draws the difference between two pictures in a canvas.
(app => {
  "use strict";
  const MOST = 1024; // pixels of the longer side
  const SEEN = 16; // levels of 255 from which on a difference is counted
  const LUMA = [0.2126, 0.7152, 0.0722];

  async function decoded(src) {
    const image = new Image();
    image.src = src;
    await image.decode();
    return image;
  }

  // Draw in the frame of the first picture; a picture of another shape is fitted into it.
  function fitted(context, image, width, height) {
    const scale = Math.min(width / image.naturalWidth, height / image.naturalHeight);
    const [w, h] = [image.naturalWidth * scale, image.naturalHeight * scale];
    context.drawImage(image, (width - w) / 2, (height - h) / 2, w, h);
  }

  // The absolute difference of each channel. The canvas does it itself, so that it also works with
  // pictures whose pixels a page from a file must not read.
  function composed(canvas, left, right) {
    const scale = Math.min(1, MOST / Math.max(left.naturalWidth, left.naturalHeight));
    canvas.width = Math.round(left.naturalWidth * scale);
    canvas.height = Math.round(left.naturalHeight * scale);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    fitted(context, left, canvas.width, canvas.height);
    context.globalCompositeOperation = "difference";
    fitted(context, right, canvas.width, canvas.height);
    return context;
  }

  function selected(mask, { width, height }) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.drawImage(mask, 0, 0, width, height);
    return context.getImageData(0, 0, width, height).data;
  }

  function share(pixels, inside, wanted) {
    let all = 0, changed = 0;
    for (let at = 0; at < pixels.length; at += 4) {
      if (inside && inside[at] > 127 !== wanted) continue;
      all += 1;
      const luma = LUMA[0] * pixels[at] + LUMA[1] * pixels[at + 1] + LUMA[2] * pixels[at + 2];
      if (luma > SEEN) changed += 1;
    }
    return all ? `${(100 * changed / all).toFixed(1)} %` : "\u2013";
  }

  function told(context, canvas, mask) {
    let pixels;
    try {
      pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
      const parts = [`${share(pixels)} of the pixels differ by more than ${SEEN} of 255`];
      if (mask) {
        const inside = selected(mask, canvas);
        parts.push(`${share(pixels, inside, true)} inside the mask, ${share(pixels, inside, false)} outside`);
      }
      return parts.join("; ");
    } catch (error) {
      if (error.name === "SecurityError") return "";
      throw error;
    }
  }

  // Draw the difference and, where pixels may be read, say how much of the picture changed.
  async function subtract(canvas, left, right, mask) {
    const pictures = await Promise.all([left, right, ...(mask ? [mask] : [])].map(decoded));
    const shapes = pictures.slice(0, 2).map(each => `${each.naturalWidth}\u00d7${each.naturalHeight}`);
    const context = composed(canvas, pictures[0], pictures[1]);
    const note = shapes[0] === shapes[1] ? "" : ` (scaled: ${shapes[1]} to ${shapes[0]})`;
    return told(context, canvas, pictures[2]) + note;
  }

  app.subtract = subtract;
})(window.editjudge ??= {});
